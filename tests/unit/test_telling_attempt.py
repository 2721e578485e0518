"""Which of several attempts speaks for a job: its node, and its output."""

import pytest

from distributed_grid.kernel.jobs import Attempt, Job
from tests.node_world import a_job


def an_attempt(number: int, state: str, how: str = "") -> Attempt:
    return Attempt(
        number=number, lease=f"{number}", node=f"n{number}", granted_ms=1, state=state, how=how
    )


@pytest.mark.parametrize(
    ("attempts", "job", "telling"),
    [
        ([], {}, None),
        ([("ended", "exited"), ("granted", "")], {}, 2),
        ([("running", ""), ("ended", "stopped")], {}, 1),  # It came back, the newer was stopped.
        ([("ended", "exited"), ("ended", "stopped")], {"state": "succeeded"}, 1),
        ([("ended", "exited"), ("ended", "exited")], {"state": "failed"}, 2),
        ([("ended", "lost"), ("ended", "exited"), ("lost", "lost")], {"state": "succeeded"}, 2),
        ([("ended", "exited"), ("ended", "stopped")],
         {"state": "cancelled", "is_cancelled": True}, 2),
    ],
)  # fmt: skip
def test_the_attempt_that_runs_or_decided_the_job_speaks_for_it(attempts, job, telling):
    made = Job(spec=a_job("x"), submitted_ms=1, **job)
    made.attempts = [an_attempt(at, *one) for at, one in enumerate(attempts, 1)]

    found = made.telling_attempt

    assert (found.number if found else None) == telling
