"""What a job lacked on another machine, and how that gets there; a project's environment, too.

Lives here: what is said once a job has ended. Never here: the reason itself (`outcome`).
What cannot be found out is not said: the job is what counts.
"""

import os
import re
import shlex
from typing import Final

from distributed_grid.cli.tell import tell
from distributed_grid.client import calls, door
from distributed_grid.client.blocking import Caller
from distributed_grid.client.shipping import description_of
from distributed_grid.errors import GridError, shown
from distributed_grid.wire.api import JobView

NOT_FOUND: Final = 127
_SENDS: Final = "grid run --dry-run shows what travels, --ship"
SAID_BYTES_MAX: Final = 1 << 16  # Then all of it is forgotten, and said once more.
# As a traceback ends, and what `python -m` says.
_MODULE: Final = re.compile(rb"(?:NotFoundError|python[^\n]*): No module named '?([\w.]+)'?\s*\Z")
# Words of a line in which a program says that a file is not there; some stand in quotes.
_NO_FILE: Final = re.compile(rb"no such file|not found|cannot open|does not exist", re.IGNORECASE)
_WORDS: Final = re.compile(r"'([^']+)'|\"([^\"]+)\"|([^\s:,;'\"()]+)")
ENDS_BYTES: Final = 4_096  # The end of what it wrote tells why it ended.
_SIGNS: Final = re.compile(r"[\s&|;<>$*]")  # Of a shell, in what should be one word.


def missing(agent: Caller, job: JobView) -> str:
    """What a job that failed did not find, and the remedy; empty: nothing is known of that."""
    if job.state != "failed" or not job.argv or not job.attempts:
        return ""
    why = " ".join([job.reason, *(job.array.reasons if job.array else ())])
    is_unfound = f"{job.argv[0]}: command not found" in why and ", in the image" not in why
    if is_unfound and len(job.argv) == 1 and _SIGNS.search(job.argv[0]):
        told = shown(job.argv[0])
        return f"{told} was taken for the name of a program: --shell runs it as a shell does"
    try:
        if not is_elsewhere(agent, job):
            return ""
        lacks = _unfound(job) if is_unfound else _lacking(agent, job)
    except GridError:
        return ""
    return f"it ran on {job.attempts[-1].node}, {lacks}" if lacks else ""


def _unfound(job: JobView) -> str:
    """Of a program that is not there."""
    program, node = job.argv[0], job.attempts[-1].node
    if is_python(job):
        return f"where there is no {program}; {_remedy(job)}"
    if "/" not in program or program.startswith("/"):
        return f"where {program} was not found; install it there, or --avoid {node}"
    if os.path.exists(os.path.join(job.cwd, program)):  # noqa: PTH110, PTH118
        return f"where there is no {program}; {_SENDS} {program} sends it"
    return f"and there is no {program} here either"


def _lacking(agent: Caller, job: JobView) -> str:
    """Of a program that did not find what it needs."""
    node = job.attempts[-1].node
    if job.exit_code == NOT_FOUND:
        return f"where a command of it was not found; install it there, or --avoid {node}"
    index = job.array.failed_indices[0][0] if job.array and job.array.failed_indices else None
    written = agent.run(calls.logs(f"id:{job.id}", stream="stderr", index=index))
    is_python_said = any("python" in word for word in job.argv)
    found = _MODULE.search(written[-1_000:]) if is_python_said else None
    if found is None:
        return _left_out(job, written[-ENDS_BYTES:])
    module = found[1].decode()
    top = os.path.join(job.cwd, module.partition(".")[0])  # noqa: PTH118
    if os.path.isdir(top) or os.path.isfile(f"{top}.py"):  # noqa: PTH112, PTH113
        return f"where there is no {module}; {_SENDS} sends it"
    return f"where Python has no module {module}; {_remedy(job, module)}"


def _left_out(job: JobView, written: bytes) -> str:
    """Of a program that did not find a file that is here, in the directory of the job."""
    for line in filter(_NO_FILE.search, reversed(written.splitlines())):
        for words in _WORDS.findall(line.decode(errors="replace")):
            path = os.path.normpath(os.path.join(job.cwd, "".join(words)))  # noqa: PTH118
            if not path.startswith(f"{job.cwd}/") or not os.path.exists(path):  # noqa: PTH110
                continue
            file = shlex.quote(os.path.relpath(path, job.cwd))
            if os.path.realpath(path).startswith(f"{os.path.realpath(job.cwd)}/"):
                return f"where there is no {file}; {_SENDS} {file} sends it"
            return f"where there is no {file}: links that lead outside stay here; copy it in"
    return ""


def environment(agent: Caller, job: JobView, data_dir: str | None) -> None:
    """Say once for a project how its environment gets to where a job of it ran."""
    path = f"{door.home_of(data_dir).data}/said"
    file = description_of(job.cwd)
    line = f"{file}\n"
    try:
        if not file or line in _said(path) or not is_elsewhere(agent, job):
            return
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as said:  # noqa: PTH123
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
        with open(path, encoding="utf-8", errors="surrogateescape") as said:  # noqa: PTH123
            return said.readlines()
    except FileNotFoundError:
        return []


def _remedy(job: JobView, module: str = "") -> str:
    file = os.path.basename(description_of(job.cwd)) or "requirements.txt"  # noqa: PTH119
    if module:
        return f"with {module} in {file}, --python-env auto builds an environment for it"
    return f"--python-env auto builds an environment from {file}"
