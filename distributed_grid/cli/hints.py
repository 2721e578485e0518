"""What a job lacked on another machine, and how that gets there; a project's environment, too.

Lives here: what is said once a job has ended. Never here: the reason itself (`outcome`).
What cannot be found out is not said: the job is what counts.
"""

import os
import re
from typing import Final

from distributed_grid.cli.tell import tell
from distributed_grid.client import calls, door
from distributed_grid.client.blocking import Caller
from distributed_grid.client.shipping import description_in
from distributed_grid.errors import GridError
from distributed_grid.wire.api import JobView

NOT_FOUND: Final = 127
SAID_BYTES_MAX: Final = 1 << 16  # Then all of it is forgotten, and said once more.
_MODULE: Final = re.compile(rb"ModuleNotFoundError: No module named '([\w.]+)'\s*\Z")
_SIGNS: Final = re.compile(r"[\s&|;<>$*]")  # Of a shell, in what should be one word.


def missing(agent: Caller, job: JobView) -> str:
    """What a job that failed did not find, and the remedy; empty: nothing is known of that."""
    if job.state != "failed" or not job.argv or not job.attempts:
        return ""
    program, node = job.argv[0], job.attempts[-1].node
    is_missing = job.exit_code == NOT_FOUND
    if is_missing and len(job.argv) == 1 and _SIGNS.search(program):
        return f"{program!r} was taken for the name of a program: --shell runs it as a shell does"
    try:
        if not is_elsewhere(agent, job):
            return ""
        if is_missing and is_python(job):
            return f"it ran on {node}, where there is no {program}; {_remedy(job)}"
        if is_missing and "/" in program.lstrip("/"):
            sends = f"grid run --dry-run shows what travels, --ship {program} sends it"
            return f"it ran on {node}, where there is no {program}; {sends}"
        if is_missing:
            told = "a command of it" if program.startswith("/") else program
            return (
                f"it ran on {node}, where {told} was not found; install it there, or --avoid {node}"
            )
        index = job.array.failed_indices[0][0] if job.array and job.array.failed_indices else None
        if not any("python" in word for word in job.argv):
            return ""
        written = agent.run(calls.logs(f"id:{job.id}", stream="stderr", index=index))
    except GridError:
        return ""
    if (found := _MODULE.search(written[-1_000:])) is None:
        return ""
    module = found[1].decode()
    return f"it ran on {node}, where Python has no module {module}; {_remedy(job, module)}"


def environment(agent: Caller, job: JobView, data_dir: str | None) -> None:
    """Say once for a project how its environment gets to where a job of it ran."""
    path = f"{door.home_of(data_dir).data}/said"
    file = description_in(job.cwd)
    line = f"{job.cwd}\n"
    try:
        if not file or line in _said(path) or not is_elsewhere(agent, job):
            return
        with open(path, "a", encoding="utf-8") as said:  # noqa: PTH123
            said.write(line)
    except (GridError, OSError):
        return
    tell(f"grid: it ran on {job.attempts[-1].node} with the Python there; {_remedy(job)}")


def is_python(job: JobView) -> bool:
    """Whether its command is an interpreter of Python."""
    return os.path.basename(job.argv[0]).startswith("python") if job.argv else False  # noqa: PTH119


def is_elsewhere(agent: Caller, job: JobView) -> bool:
    """Whether it ran on another machine than this one."""
    return bool(job.attempts) and job.attempts[-1].node != agent.run(calls.status()).name


def _said(path: str) -> list[str]:
    try:
        if os.stat(path).st_size > SAID_BYTES_MAX:  # noqa: PTH116
            os.unlink(path)  # noqa: PTH108
        with open(path, encoding="utf-8") as said:  # noqa: PTH123
            return said.readlines()
    except FileNotFoundError:
        return []


def _remedy(job: JobView, module: str = "") -> str:
    file = os.path.basename(description_in(job.cwd)) or "requirements.txt"  # noqa: PTH119
    named = f"with {module} in {file}, " if module else ""
    return f"{named}--python-env {file} builds an environment for it"
