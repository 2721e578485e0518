"""What a node is like after a job has been placed on it: for batches on a snapshot.

Lives here: the what-if of one placement. Never here: real grants (`kernel.ledger`).
"""

import msgspec

from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord


def after_placing(job: JobSpec, node: NodeRecord) -> NodeRecord:
    """The record of the node with the job's resources taken and the job running."""
    return msgspec.structs.replace(
        node,
        free=node.free - node.free.grant(job.request),
        jobs=node.jobs + 1,
        running=tuple(sorted({*node.running, job.name})),
    )
