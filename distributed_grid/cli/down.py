"""`grid down`: the agent stops; its jobs go on, or stop with it."""

import os
import time
from pathlib import Path
from typing import Final

import click

from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.resting import rest
from distributed_grid.errors import GridError, NoAgent
from distributed_grid.wire.api import NodeStatus

GONE_S: Final = 60.0  # Jobs that ignore SIGTERM are killed after their grace of 10 s.
LOOK_S: Final = 0.02


class StillUp(GridError):
    """The agent was told to stop, and has not."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        super().__init__(
            f"the agent at {socket} was told to stop, and has not after {GONE_S:g} s",
            remedy="Look at it with: grid status; its log is agent.log beside the socket",
        )


@click.command("down")
@click.option(
    "--stop-jobs/--keep-jobs", default=False, help="What becomes of running jobs. [default: keep]"
)
@json_option
@data_dir_option
def command(*, stop_jobs: bool, as_json: bool, data_dir: str | None) -> None:
    """Stop the agent, and wait until it has gone."""
    with caller(data_dir) as agent:
        status = stop(agent, stop_jobs=stop_jobs)
    kept = 0 if stop_jobs else status.jobs_running
    if as_json:
        print_json({"name": status.name, "pid": status.pid, "jobs_kept": kept})
    else:
        told = f"; {kept} running jobs go on" if kept else ""
        click.echo(f"{status.name} is down{told}", err=True)


def stop(agent: Caller, *, stop_jobs: bool) -> NodeStatus:
    """Tell the agent to stop, and wait until it has gone: its keeper too, unless jobs go on."""
    status = agent.run(calls.status())
    try:
        agent.run(calls.down(stop_jobs=stop_jobs))
    except NoAgent:
        if lives(status.pid):  # It may have gone before its answer; that is what was wanted.
            raise
    agent.close()
    awaited = (
        [status.pid] if status.jobs_running and not stop_jobs else [status.pid, status.keeper_pid]
    )
    deadline = time.monotonic() + GONE_S
    while any(lives(pid) for pid in awaited):
        if time.monotonic() > deadline:
            raise StillUp(agent.path)
        rest(LOOK_S)
    return status


def lives(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # Somebody else's by now, or always.
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()  # It went just now; or this is not Linux.
    # It has ended even if nobody asked for its status yet: some take seconds for that.
    return stat.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
