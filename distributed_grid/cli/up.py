"""`grid up`: an agent, and the keeper above it, for this machine.

Lives here: starting them, waiting until they answer, the status line. Never here: what they do
(`app`, `edges.runner`).
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import msgspec

from distributed_grid.cli import ticket_text
from distributed_grid.cli.agent import json_option
from distributed_grid.cli.down import stop
from distributed_grid.cli.join import tell as tell_joined
from distributed_grid.cli.notifying import notify
from distributed_grid.cli.status import in_a_line
from distributed_grid.client import calls, door, mesh_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.door import home_of
from distributed_grid.client.resting import rest
from distributed_grid.edges.home import prepare, read_pid
from distributed_grid.errors import AgentRuns, GridError, NoAgent
from distributed_grid.model.home import Home
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.mesh_api import Joined
from distributed_grid.wire.ticket import read_ticket

START_S: Final = 30.0  # An agent starts in one second on an idle machine, in ten on a crowded one.
LEAVING_S: Final = 10.0  # One that was told to go, and has jobs that go on: it ends in one second.
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
@click.option("--listen", default="", metavar="ADDRESS:PORT", help="For the mesh; else any, kept.")
@click.option("--join", "ticket", metavar="TICKET|-|@FILE", help="Join a mesh; else GRID_TICKET.")
@click.option("--new-identity", is_flag=True, help="Forget who this node was, and its mesh.")
@click.option("--moved-here", is_flag=True, help="Its directory was moved here from elsewhere.")
@click.option("--replace", is_flag=True, help="Stop an agent that runs here; its jobs go on.")
@json_option
def command(*, ticket: str | None, as_json: bool, **told: Any) -> None:
    """Start the agent of this machine.

    In the foreground Ctrl-C stops it as `grid down` does: jobs go on. If it cannot join, it does
    not stay up.
    """
    if told["new_identity"] and told["moved_here"]:
        raise click.UsageError("either --new-identity or --moved-here: is it another node or not?")
    text = ticket_text.taken(ticket)
    if text is not None:
        read_ticket(text)  # Whatever is wrong with it is told before anything starts.
    if text is not None and not told["detach"] and not _is_harmless(ticket):
        _become_harmless(text, as_json=as_json, **told)
    systemd = os.environ.pop("NOTIFY_SOCKET", None)  # For us alone: jobs are no services.
    home = home_of(told["data_dir"])
    with Caller(home.socket, coming_s=0) as agent:  # Nobody comes back before we call.
        _refuse_second(agent, home, is_replaced=told["replace"])
    _check_settings(home, told)  # After it went: where it listens must be free.
    begin = partial(_begin, home, _agent_options(told), ticket=text, as_json=as_json)
    del text
    if told["detach"]:
        begin(is_data=True)
        return
    for number in SIGNALS:  # From here on: the keeper would not hear of a Ctrl-C.
        signal.signal(number, _raise_told)
    try:
        keeper = begin(is_data=False)
        notify(systemd, "READY=1")
        with Caller(home.socket) as agent:
            _show_line(agent, keeper)
    except NoAgent:
        pass  # `grid down` from elsewhere; jobs may go on under the keeper.
    except _Told:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        notify(systemd, "STOPPING=1")
        _stop(home)
    click.echo("\ngrid: the agent has stopped", err=True)


def _is_harmless(ticket: str | None) -> bool:
    """Whether neither the arguments nor the environment of this process show the ticket."""
    return ticket is not None and (ticket == "-" or ticket.startswith("@"))


def _become_harmless(text: str, *, as_json: bool, **told: Any) -> NoReturn:
    """Begin again with the ticket in a pipe: we live long, and others can read our arguments."""
    words = ["up", "--join", ticket_text.moved_to_pipe(text), *(["--json"] if as_json else [])]
    for key, value in told.items():
        flag = f"--{key.replace('_', '-')}"
        if value:
            words += [flag] if value is True else [flag, value]
    started_as = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv[1:])]
    os.execv(sys.executable, [*started_as, *words])  # noqa: S606  (it is what runs already)


def _agent_options(told: dict[str, Any]) -> list[str]:
    """What is passed on. A keeper starts its agent again with the same words after a crash."""
    options = ["--name", told["name"]] if told["name"] else []
    options += ["--config", str(Path(told["config"]).absolute())] if told["config"] else []
    options += ["--listen", told["listen"]] if told["listen"] else []
    # So the agent must tell this start from the next: whoever it became stays.
    options += ["--new-identity", secrets.token_hex(8)] if told["new_identity"] else []
    options += ["--moved-here"] if told["moved_here"] else []
    return options


def _begin(
    home: Home, options: list[str], *, ticket: str | None, as_json: bool, is_data: bool
) -> Keeper:
    """Start, wait for the answer, join if told, and say so."""
    keeper = _start(home, options)
    with Caller(home.socket, coming_s=0) as agent:
        status = _await_answer(agent, home, keeper)
        joined = None if ticket is None else _joined(agent, home, ticket)
    if as_json:
        click.echo(msgspec.json.encode(status))
    else:
        line = f"{status.name} is up: data in {home.data}, socket {home.socket}"
        click.echo(line, err=not is_data)
        for trouble in status.troubles:
            click.echo(f"grid: {trouble}", err=True)
        if joined is not None:
            tell_joined(joined, is_data=is_data)
    return keeper


def _joined(agent: Caller, home: Home, ticket: str) -> Joined:
    """One of the mesh, or down again: whoever asked for both shall not find one of them."""
    try:
        return agent.run(mesh_calls.join(ticket))
    except NoAgent:
        _end_keeper(home)
        why = f"it went while it joined; it said: {_last_words(home)}"
        raise NotUp(home, why=why) from None
    except BaseException:
        _stop(home)
        raise


def _refuse_second(agent: Caller, home: Home, *, is_replaced: bool = False) -> None:
    try:
        status = agent.run(calls.status())
        if is_replaced:
            stop(agent, stop_jobs=False)
            return
    except NoAgent:
        return
    raise AgentRuns(home.data, pid=status.pid)


def _check_settings(home: Home, told: dict[str, Any]) -> None:
    """Raise what the agent would say of its settings: here it is bad input, there a bad start.

    Where it is to listen is tried: the agent itself would listen at the first ticket only.
    """
    from distributed_grid.config.settings import load_settings

    keys = {"node.name": "name", "mesh.listen": "listen"}
    flags = {key: (f"--{word}", told[word]) for key, word in keys.items() if told[word]}
    loaded = load_settings(os.environ, file=told["config"], config_dir=home.config, flags=flags)
    if loaded.settings.mesh.listen:
        from distributed_grid.edges.transport.trying import check_listen

        check_listen(loaded.settings.mesh.listen)


def _start(home: Home, options: list[str]) -> Keeper:
    """A new keeper with its agent; or, from a keeper whose jobs go on, an agent again."""
    prepare(home)
    # -P: what lies in the directory from which somebody starts it must not become part of it.
    app = [sys.executable, "-P", "-m", "distributed_grid.app", "--data-dir", home.data, *options]
    if door.is_coming_back(home.socket) and _adopted(home, app):
        return None
    keeper = [sys.executable, "-P", "-m", "distributed_grid.edges.runner.keeper"]
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
    from distributed_grid.edges.runner.agent_link import RunnerGone, ask_for_agent
    from distributed_grid.wire.keeper import NOT_STARTED, Adopt

    wish = Adopt(argv=tuple(app), env=dict(os.environ), cwd=str(Path.cwd()))
    deadline = time.monotonic() + LEAVING_S
    try:
        while (answer := ask_for_agent(home.data, wish)).refusal:
            if answer.refusal == NOT_STARTED:
                raise NotUp(home, why=answer.refusal)
            if time.monotonic() > deadline:
                raise AgentRuns(home.data, pid=answer.agent_pid or answer.keeper_pid)
            with Caller(home.socket, coming_s=0) as agent:
                _refuse_second(agent, home)  # One that does not answer is about to go, or to come.
            rest(LOOK_S)
    except RunnerGone:
        return False  # The keeper went while we asked.
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
            rest(LOOK_S)


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


_told: list[int] = []  # Signals that came. What is raised inside a finaliser reaches nobody.


def _raise_told(number: int, _frame: object) -> None:
    _told.append(number)
    raise _Told


def _stop(home: Home) -> None:
    """As `grid down` does; an agent that does not answer yet ends with its keeper."""
    try:
        with Caller(home.socket, coming_s=0) as agent:
            stop(agent, stop_jobs=False)
    except NoAgent:
        _end_keeper(home)


def _show_line(agent: Caller, keeper: Keeper) -> None:
    """For ever, or until the keeper has ended."""
    is_shown = sys.stderr.isatty()
    while keeper is None or keeper.poll() is None:
        if _told:
            raise _Told
        status = agent.run(calls.status())
        if is_shown:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
            click.echo(f"\r\x1b[K{in_a_line(status)[: columns - 1]}", err=True, nl=False)
        rest(LINE_S)
