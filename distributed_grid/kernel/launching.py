"""An attempt as the keeper is told it: paths, job variables, limits.

Lives here: the message that starts something. Never here: starting it (`edges.runner`).
Invariant: devices that were granted are named to the process, and only those.
"""

import msgspec

from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.model import milli
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


def output_dir(paths: Paths, job: Job) -> str:
    """Where the output of a job is."""
    return f"{paths.output_root}/{job.spec.id}"


def checkpoint_dir(paths: Paths, job: Job) -> str:
    """Where a job saves its state when it is told to give way; empty if it has no way to."""
    is_told = bool(job.spec.preempt.command) or job.spec.preempt.signal != SIGTERM
    return f"{paths.checkpoint_root}/{job.spec.id}" if paths.checkpoint_root and is_told else ""


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
        env=work.env
        | _variables(job, attempt, lease)
        | ({"GRID_CHECKPOINT_DIR": saved} if saved else {}),
        cwd=work.cwd,
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
        niceness=BORROWED_NICENESS if job.spec.is_shared else 0,
        image=work.image,
        devices=attempt.gpus if paths.is_pinned else (),
    )


def _variables(job: Job, attempt: Attempt, lease: Lease) -> dict[str, str]:
    gpus = ",".join(attempt.gpus)
    return {
        "GRID_JOB_ID": job.spec.id,
        "GRID_JOB_NAME": job.spec.name,
        "GRID_ATTEMPT": str(attempt.number if job.progress is None else attempt.tries + 1),
        "GRID_CPUS": milli.text(lease.resources.cpu_milli),
        "GRID_GPUS": gpus,
        "GRID_FENCE": str(attempt.number),
        "GRID_RANK": "0",
        "GRID_WORLD_SIZE": "1",
    } | dict.fromkeys(DEVICE_VARIABLES, gpus)
