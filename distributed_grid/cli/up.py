"""`grid up`: an agent, and the keeper above it, for this machine.

Lives here: starting them, waiting until they answer, the status line. Never here: what they do
(`app`, `edges.runner`).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from distributed_grid.cli.agent import json_option
from distributed_grid.cli.status import in_a_line
from distributed_grid.client import calls, door
from distributed_grid.client.blocking import Caller
from distributed_grid.client.door import home_of
from distributed_grid.edges.home import prepare, read_pid
from distributed_grid.errors import AgentRuns, GridError, NoAgent
from distributed_grid.model.home import Home
from distributed_grid.wire.api import NodeStatus

START_S: Final = 10.0  # An agent starts in one second on an idle machine.
LOOK_S: Final = 0.02
Keeper = subprocess.Popen[bytes] | None  # None: one that was there before us.
LINE_S: Final = 1.0  # Between two looks of the status line.
LOG_LINES_SHOWN: Final = 5
BEGIN: Final = b"-- up\n"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class NotUp(GridError):
    """The agent did not come up."""

    def __init__(self, home: Home, *, why: str) -> None:
        self.data_dir, self.why = home.data, why
        super().__init__(
            f"the agent did not start: {why}", remedy=f"Read {home.agent_log}, and try: grid doctor"
        )


@click.command("up")
@click.option("--detach", "-d", is_flag=True, help="Go on in the background.")
@click.option("--data-dir", metavar="DIR", help="Where it keeps everything; else GRID_HOME or XDG.")
@click.option("--name", default="", metavar="NAME", help="Of this node; else the host's.")
@click.option("--config", metavar="FILE", help="Settings.")
@json_option
def command(
    *, detach: bool, data_dir: str | None, name: str, config: str | None, as_json: bool
) -> None:
    """Start the agent of this machine.

    In the foreground Ctrl-C stops it as `grid down` does: jobs go on.
    """
    home = home_of(data_dir)
    options = ["--name", name] if name else []
    options += ["--config", str(Path(config).absolute())] if config else []
    with Caller(home.socket, coming_s=0) as agent:  # Nobody comes back before we call.
        _refuse_second(agent, home)
    _check_settings(home, name, config)
    if detach:
        _begin(home, options, as_json=as_json, is_data=True)
        return
    for number in SIGNALS:  # From here on: the keeper would not hear of a Ctrl-C.
        signal.signal(number, _raise_told)
    try:
        keeper = _begin(home, options, as_json=as_json, is_data=False)
        with Caller(home.socket) as agent:
            _show_line(agent, keeper)
    except NoAgent:
        pass  # `grid down` from elsewhere; jobs may go on under the keeper.
    except _Told:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _stop(home)
    click.echo("\ngrid: the agent has stopped", err=True)


def _begin(home: Home, options: list[str], *, as_json: bool, is_data: bool) -> Keeper:
    """Start, wait for the answer, and say so."""
    keeper = _start(home, options)
    with Caller(home.socket, coming_s=0) as agent:
        status = _await_answer(agent, home, keeper)
    if as_json:
        click.echo(msgspec.json.encode(status))
    else:
        line = f"{status.name} is up: data in {home.data}, socket {home.socket}"
        click.echo(line, err=not is_data)
    return keeper


def _refuse_second(agent: Caller, home: Home) -> None:
    try:
        status = agent.run(calls.status())
    except NoAgent:
        return
    raise AgentRuns(home.data, pid=status.pid)


def _check_settings(home: Home, name: str, config: str | None) -> None:
    """Raise what the agent would say of its settings: here it is bad input, there a bad start."""
    from distributed_grid.config.settings import load_settings

    flags = {"node.name": ("--name", name)} if name else {}
    load_settings(os.environ, file=config, config_dir=home.config, flags=flags)


def _start(home: Home, options: list[str]) -> Keeper:
    """A new keeper with its agent; or, from a keeper whose jobs go on, an agent again."""
    prepare(home)
    app = [sys.executable, "-m", "distributed_grid.app", "--data-dir", home.data, *options]
    if door.is_coming_back(home.socket) and _adopted(home, app):
        return None
    keeper = [sys.executable, "-m", "distributed_grid.edges.runner.keeper"]
    try:
        with Path(home.agent_log).open("ab") as log:
            log.write(BEGIN)  # What follows is about this start.
            log.flush()
            return subprocess.Popen(  # noqa: S603
                [*keeper, "--data-dir", home.data, "--", *app],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we tell the agent.
            )
    except OSError as error:
        raise NotUp(home, why=str(error)) from error


def _adopted(home: Home, app: list[str]) -> bool:
    from distributed_grid.edges.runner.agent_link import ask_for_agent
    from distributed_grid.wire.keeper import Adopt

    wish = Adopt(argv=tuple(app), env=dict(os.environ), cwd=str(Path.cwd()))
    try:
        answer = ask_for_agent(home.data, wish)
    except GridError:
        return False  # It went while we asked.
    if answer.refusal:
        raise AgentRuns(home.data, pid=answer.agent_pid or answer.keeper_pid)
    return True


def _await_answer(agent: Caller, home: Home, keeper: Keeper) -> NodeStatus:
    """The status, once there is one; the last words of the log if there will be none."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            agent.run(calls.health())
            return agent.run(calls.status())
        except NoAgent:
            if keeper is not None and keeper.poll() is not None:
                raise NotUp(home, why=_last_words(home)) from None
            if time.monotonic() > deadline:
                _end_keeper(home)
                why = f"it does not answer after {START_S:g} s; it said: {_last_words(home)}"
                raise NotUp(home, why=why) from None
            time.sleep(LOOK_S)


def _end_keeper(home: Home) -> None:
    # Not the process we started: that is the keeper's guard, which waits for its end.
    pid = read_pid(home.keeper_pid)
    if pid is not None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def _last_words(home: Home) -> str:
    try:
        said = Path(home.agent_log).read_bytes()[-8_192:].rpartition(BEGIN)[2]
    except OSError:
        return ""
    text = said.decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-LOG_LINES_SHOWN:]).removeprefix("grid: ").rstrip(".")


class _Told(Exception):
    """Somebody wants us to stop."""


def _raise_told(*_: Any) -> None:
    raise _Told


def _stop(home: Home) -> None:
    """As `grid down` does; an agent that does not answer yet ends with its keeper."""
    from distributed_grid.cli.down import stop

    try:
        with Caller(home.socket, coming_s=0) as agent:
            stop(agent, stop_jobs=False)
    except NoAgent:
        _end_keeper(home)


def _show_line(agent: Caller, keeper: Keeper) -> None:
    """For ever, or until the keeper has ended."""
    is_shown = sys.stderr.isatty()
    while keeper is None or keeper.poll() is None:
        status = agent.run(calls.status())
        if is_shown:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
            click.echo(f"\r\x1b[K{in_a_line(status)[: columns - 1]}", err=True, nl=False)
        time.sleep(LINE_S)
