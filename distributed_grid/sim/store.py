"""A disk without a disk: what was saved, as the bytes that a new agent reads.

Lives here: jobs, leases and the rest by key. Never here: when something is lost (`world`).
"""

import msgspec

from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Node
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease

_encode = msgspec.msgpack.Encoder().encode
_job = msgspec.msgpack.Decoder(Job).decode
_lease = msgspec.msgpack.Decoder(Lease).decode


class Store:
    """Everything that survives a crash."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, bytes] = {}
        self.leases: dict[str, bytes] = {}
        self.meta: dict[str, bytes] = {}
        self.states: dict[JobId, str] = {}  # As of the bytes, for whoever looks often.

    def save(self, ready: Ready) -> None:
        """In one transaction."""
        for job_id, job in ready.save_jobs.items():
            self.jobs[job_id] = _encode(job)
            self.states[job_id] = job.state
        for lease in ready.save_leases:
            self.leases[lease.id] = _encode(lease)
        for lease_id in ready.drop_leases:
            self.leases.pop(lease_id, None)
        for name, value in ready.save_meta.items():
            self.meta.pop(name, None)
            if value is not None:
                self.meta[name] = value

    def restore(self, node: Node) -> None:
        """What a new agent begins with."""
        leases = {lease_id: _lease(data) for lease_id, data in self.leases.items()}
        node.restore([_job(data) for data in self.jobs.values()], leases, self.meta)
