"""The jobs of `grid run --file`: what `grid place` reads, with a command.

Lives here: from a file to jobs that can be submitted. Never here: the shape of the file
(`config.jobs`).
"""

from collections.abc import Sequence

import msgspec

from distributed_grid.client.specification import Wishes, new_id, specification
from distributed_grid.config.jobs import read_jobs
from distributed_grid.errors import BadInput
from distributed_grid.model import ids
from distributed_grid.model.job import JobSpec

FROM_FILE = ("request", "require", "prefer", "avoid", "avoid_if_possible", "arch", "features",
             "battery_safe")  # fmt: skip


def specifications(
    file: str, words: str | Sequence[str], wishes: Wishes, *, is_detached: bool
) -> list[JobSpec]:
    """The jobs of a file; `words`, if any, are the command of each; a text is for a shell."""
    jobs, is_list = read_jobs(file)
    if len(jobs) != 1 and not is_detached:
        problem = f"holds {len(jobs)} jobs, and one at a time is watched"
        raise BadInput(file, path="$", problem=problem, remedy="Submit them with --detach")
    made = []
    for index, job in enumerate(jobs):
        command = words or (job.work.argv if job.work is not None else ())
        if not command:
            path = f"$[{index}].command" if is_list else "$.command"
            remedy = "Write command: [python, train.py], or give it after the options"
            raise BadInput(file, path=path, problem="there is none", remedy=remedy)
        wishes["name"] = job.name
        wishes["id"] = new_id() if job.id == ids.job_id_of(job.name) else job.id
        told = {name: getattr(job, name) for name in FROM_FILE}
        made.append(msgspec.structs.replace(specification(command, wishes), **told))
    return made
