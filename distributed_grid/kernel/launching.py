"""An attempt as the keeper is told it: paths, job variables, limits.

Lives here: the message that starts something. Never here: starting it (`edges.runner`).
Invariant: devices that were granted are named to the process, and only those.
"""

import msgspec

from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.model import milli
from distributed_grid.model.across import Fence, Origin
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Limits, Run, Slot

SIGTERM = 15
BORROWED_NICENESS = 19  # The owner's own programs come first, whatever was measured.

# One variable for each vendor's runtime; they all mean "see only these devices".
DEVICE_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)


class Paths(msgspec.Struct, frozen=True, kw_only=True):
    """Where this node keeps what jobs write."""

    output_root: str
    scratch_root: str
    checkpoint_root: str = ""  # Empty: no job can save its state.
    output_bytes_max: int = 64 << 20
    is_pinned: bool = True  # False: cores are pretended, and nobody can be pinned to them.
    guest_env: dict[str, str] = {}  # What every job of another node finds: PATH, HOME and the like.


def output_dir(paths: Paths, job: Job) -> str:
    """Where the output of a job is."""
    return f"{paths.output_root}/{job.output_of or job.spec.id}"


def checkpoint_dir(paths: Paths, job: Job) -> str:
    """Where a job saves its state when it is told to give way; empty if it has no way to."""
    is_told = bool(paths.checkpoint_root) and is_checkpointable(job.spec)
    return f"{paths.checkpoint_root}/{job.output_of or job.spec.id}" if is_told else ""


def is_checkpointable(spec: JobSpec) -> bool:
    """Whether a job knows how to save its state when it is told to give way."""
    return bool(spec.preempt.command) or spec.preempt.signal != SIGTERM


def run_message(job: Job, attempt: Attempt, lease: Lease, paths: Paths) -> Run:
    """What the keeper needs to know to run this attempt."""
    work, request = job.spec.work, job.spec.request
    assert work is not None, "only jobs with work are submitted"
    saved = checkpoint_dir(paths, job)
    whole = all(share == milli.WHOLE for _, share in lease.cores)
    pinned = paths.is_pinned and whole
    return Run(
        attempt=attempt.id,
        lease=lease.id,
        job=job.spec.id,
        argv=work.argv,
        env=_environment(job, paths)
        | _variables(job, attempt, lease)
        | ({"GRID_CHECKPOINT_DIR": saved} if saved else {}),
        cwd=f"{paths.scratch_root}/{lease.id}" if work.is_abroad else work.cwd,
        output_dir=output_dir(paths, job),
        scratch_dir=f"{paths.scratch_root}/{lease.id}",
        indices=attempt.indices,
        slot=Slot(cores=attempt.cores if pinned else ()),
        limits=Limits(
            cpu_milli=0 if pinned else request.cpu_milli,
            memory_bytes=request.memory_bytes,
            output_bytes_max=paths.output_bytes_max,
        ),
        timeout_ms=work.timeout_ms,
        grace_ms=work.grace_ms,
        checkpoint_dir=saved,
        niceness=BORROWED_NICENESS if _gives_way(job, paths) else 0,
        image=work.image,
        devices=attempt.gpus if paths.is_pinned else (),
        until_boot_us=attempt.until_boot_us,
    )


def fence_number(fence: Fence) -> int:
    """A fence as a number that rises with it; 0: there is none. Below 2^63 for 500,000 takeovers.

    Of the node, which only tells two takeovers at once apart, the first 24 bits.
    """
    epoch = fence.epoch
    node = int(epoch.node[:6] or "0", 16)
    return ((epoch.counter << 24) + node << 20) + min(fence.seq, (1 << 20) - 1)


def _gives_way(job: Job, paths: Paths) -> bool:
    """Whether the owner's own programs come first.

    Another node's job on a pretended machine does not: several of those share a real one, and what
    they do for each other would never get its turn there.
    """
    return job.spec.is_shared and (paths.is_pinned or not (job.is_guest or job.is_foreign))


def _environment(job: Job, paths: Paths) -> dict[str, str]:
    """The caller's, where it was called; elsewhere what was told by name, on the node's own."""
    work = job.spec.work
    assert work is not None, "only jobs with work are started"
    return paths.guest_env | work.env if work.is_abroad else work.env


def _variables(job: Job, attempt: Attempt, lease: Lease) -> dict[str, str]:
    gpus = ",".join(attempt.gpus)
    origin = job.spec.origin
    return {
        "GRID_JOB_ID": origin.job if origin else job.spec.id,
        "GRID_JOB_NAME": job.spec.name,
        "GRID_JOB_ATTEMPT": attempt.id,
        "GRID_NODE": attempt.node,
        "GRID_ATTEMPT": str(attempt.number if job.progress is None else attempt.tries + 1),
        "GRID_CPUS": milli.text(lease.resources.cpu_milli),
        "GRID_GPUS": gpus,
        "GRID_FENCE": str(fence_number(attempt.fence) or attempt.number),
        "GRID_RANK": str(origin.rank if origin else 0),
        "GRID_WORLD_SIZE": str(origin.ranks if origin else 1),
        **_world(origin),
    } | dict.fromkeys(DEVICE_VARIABLES, gpus)


def _world(origin: Origin | None) -> dict[str, str]:
    """Of a rank: where the others are."""
    if origin is None or origin.ranks == 1:
        return {}
    meeting = {"GRID_RENDEZVOUS": origin.rendezvous} if origin.rendezvous else {}
    return {"GRID_PEERS": ",".join(origin.peers)} | meeting
