"""A mesh of real agents in a network of its own: one loopback, or each on a host of one wire.

Lives here: starting and ending them, what each one sees, waiting until it sees something, ways to
hurt them. Never here: assertions about the product; networks and their faults (`namespaces`).
Invariant: after `close` no process and no network of it is left, whatever happened meanwhile.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from distributed_grid.client import mesh_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.streams import Events
from distributed_grid.errors import GridError
from distributed_grid.wire.api import Event
from distributed_grid.wire.mesh_api import NodeView
from tests.agent_lab import AgentLab
from tests.keeper_lab import is_alive, wait_until
from tests.namespaces import Host, Namespace, Wire

STARTS_AT_ONCE = 3  # `grid up` waits ten seconds for its agent; more at once could be too many.
SETTLE_S = 90.0  # Until everyone sees what all should see; the product itself needs about two.
DOWN_S = 60.0  # For all of them together.
LOOK_S = 0.1  # Each look costs both sides a millisecond.
_OTHER_MACHINE = 'mount --bind "$0" /etc/machine-id && exec "$@"'


class Member(AgentLab):
    """One agent with its keeper, and a person beside it."""

    def __init__(
        self, net: Namespace, name: str, *, config: str = "", machine_id: str = ""
    ) -> None:
        super().__init__()
        self.net, self.name = net, name
        self._words = ["up", "--detach", "--name", name]
        self._around: list[str] = []
        self._started: list[subprocess.Popen[str]] = []
        if config:
            (self.dir / "config.yaml").write_text(config)
            self._words += ["--config", str(self.dir / "config.yaml")]
        if machine_id:
            file = self.root / "machine-id"
            file.write_text(f"{machine_id}\n")
            self._around = ["unshare", "--mount", "--", "sh", "-c", _OTHER_MACHINE, str(file)]

    def start(self, *words: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        """`grid` with these words, inside; whoever started it waits for it."""
        argv = [*self._around, sys.executable, "-m", "distributed_grid", *words]
        process = subprocess.Popen(
            self.net.command(argv),
            env={**self.env, **(env or {})},
            cwd=self.dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def __call__(self, *words: str, env: dict[str, str] | None = None, stdin: str = ""):
        process = self.start(*words, env=env)
        out, err = process.communicate(stdin, timeout=120)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def says(self, *words: str, stdin: str = "") -> str:
        """What it prints; it must succeed."""
        done = self(*words, stdin=stdin)
        assert done.returncode == 0, f"{self.name}: grid {words}: {done.stderr}\n{self.log}"
        return done.stdout

    def start_up(self, *words: str) -> "subprocess.Popen[str]":
        return self.start(*self._words, *words)

    def up(self, *words: str) -> "Member":
        finished([self.start_up(*words)])
        return self

    def ticket(self, *words: str) -> str:
        return self.says("ticket", *words).strip()

    # What it sees

    def nodes(self) -> dict[str, NodeView]:
        """Everyone by name; nobody, if the agent does not answer."""
        with contextlib.suppress(GridError), self._caller() as agent:
            return {node.name: node for node in agent.run(mesh_calls.nodes()).nodes}
        return {}

    def health(self) -> dict[str, str]:
        return {name: node.health for name, node in self.nodes().items()}

    def events(self, *names: str) -> list[Event]:
        """What happened since this agent started, of these kinds."""
        with contextlib.suppress(GridError), self._caller() as agent:
            found = list(agent.stream(Events(after=0, follow=False)))
            return [event for event in found if not names or event.name in names]
        return []

    def told(self, *names: str) -> list[tuple[str, str]]:
        """The same as (event, name of the node)."""
        return [(event.name, str(event.fields.get("name"))) for event in self.events(*names)]

    def figure(self, name: str) -> int:
        """One of /metrics."""
        lines = self.http("GET", "/metrics")[1].decode().splitlines()
        return int(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))

    def _caller(self) -> Caller:
        return Caller(str(self.home / "agent.sock"), coming_s=0)

    # What is done to it

    def pids(self, *who: str) -> list[int]:
        found = (self._pid_or_none(each) for each in who or ("keeper", "agent"))
        return [pid for pid in found if pid and is_alive(pid)]

    def kill(self, *who: str) -> None:
        """kill -9; of both, unless told."""
        pids = self.pids(*who)
        self._signal(signal.SIGKILL, pids)
        wait_until(lambda: not any(map(is_alive, pids)))

    def pause(self) -> None:
        self._signal(signal.SIGSTOP, self.pids())

    def resume(self) -> None:
        self._signal(signal.SIGCONT, self.pids())

    @staticmethod
    def _signal(number: int, pids: Iterable[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def ask_down(self) -> None:
        self.resume()
        with contextlib.suppress(OSError):
            self.http("POST", "/v1/down", b'{"stop_jobs":true}')

    def forget(self) -> None:
        """Let go of what was started and never waited for."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
                process.communicate()

    def down(self) -> None:
        MeshLab.take_down([self])


class MeshLab:
    """Some agents that are to be one mesh; a context manager."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._networks: list[Namespace] = []
        self._rest = contextlib.ExitStack()

    @classmethod
    def on_loopback(cls) -> "MeshLab":
        """All in one network."""
        lab = cls()
        lab.network()
        return lab

    @classmethod
    def on_wire(cls, names: Iterable[str], config: Mapping[str, str] | str = "") -> "MeshLab":
        """Each on a host of its own, none of them up; all configured alike, or by name."""
        lab = cls()
        names = list(names)
        wire = lab._rest.enter_context(Wire(len(names)))
        lab._networks += wire.hosts
        for host, name in zip(wire.hosts, names, strict=True):
            words = config if isinstance(config, str) else config[name]
            lab.member(name, net=host, config=words)
        return lab

    def network(self) -> Namespace:
        """One more loopback, out of reach of the others."""
        made = Namespace()
        self._networks.append(made)
        self._rest.callback(made.close)
        return made

    def member(self, name: str, *, net: Namespace | None = None, **options: str) -> Member:
        """One more agent, not up yet."""
        made = Member(net or self._networks[0], name, **options)
        self.members.append(made)
        return made

    def __getitem__(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    def form(self, members: Sequence[Member]) -> None:
        """Bring them up as one mesh, each of another person; the first one founds it."""
        founder, *others = members
        founder.up()
        (founder.root / "ticket").write_text(founder.ticket("--uses", "1000"))
        while others:
            now, others = others[:STARTS_AT_ONCE], others[STARTS_AT_ONCE:]
            tickets = [founder.ticket("--for", each.name) for each in now]
            pairs = zip(now, tickets, strict=True)
            finished([member.start_up("--join", ticket) for member, ticket in pairs])
        self.settled(members)

    @staticmethod
    def bring_up(members: Iterable[Member], *words: str) -> None:
        """All of them, a few at a time."""
        waiting = list(members)
        while waiting:
            now, waiting = waiting[:STARTS_AT_ONCE], waiting[STARTS_AT_ONCE:]
            finished([member.start_up(*words) for member in now])

    @staticmethod
    def take_down(members: Iterable[Member]) -> None:
        """All of them at once."""
        members = list(members)
        pids = [pid for member in members for pid in member.pids()]
        for member in members:
            member.ask_down()
        wait_until(lambda: not any(map(is_alive, pids)), within_s=DOWN_S)

    @staticmethod
    def settled(members: Iterable[Member], *, within_s: float = SETTLE_S) -> None:
        """Until each sees all of these alive, and reaches them."""
        members = list(members)
        names = {member.name for member in members}
        waiting = list(members)

        def has_all(member: Member) -> bool:
            seen = member.nodes()
            return all(
                name in seen and seen[name].health == "alive" and seen[name].path != "none"
                for name in names
            )

        def all_done() -> bool:
            nonlocal waiting
            waiting = [member for member in waiting if not has_all(member)]
            return not waiting

        awaited(all_done, lambda: {each.name: each.health() for each in waiting}, within_s)

    def host(self, name: str) -> Host:
        net = self[name].net
        assert isinstance(net, Host), "it has none of its own"
        return net

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Down, or else by force."""
        try:
            for member in self.members:
                member.forget()
                member.ask_down()
            with contextlib.suppress(AssertionError):
                wait_until(lambda: not list(self._left()), within_s=DOWN_S)
            left = list(self._left())
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert not left, f"still there after grid down: {left}"
        finally:
            self._rest.close()
            for member in self.members:
                shutil.rmtree(member.root, ignore_errors=True)

    def _left(self) -> Iterator[tuple[int, str]]:
        """Every process in our networks but those that hold them."""
        holders = {network.pid for network in self._networks}
        ours = {network_of(pid) for pid in holders}
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            if pid not in holders and is_alive(pid) and network_of(pid) in ours:
                with contextlib.suppress(OSError):
                    yield pid, (entry / "cmdline").read_text().replace("\0", " ")


def network_of(pid: int) -> int:
    """Which network a process is in; 0, if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    return 0


def finished(processes: Iterable["subprocess.Popen[str]"]) -> None:
    """Wait for all of them; each must succeed."""
    results = [
        (each.args, each.communicate("", timeout=120), each.returncode) for each in processes
    ]
    for argv, (_, err), code in results:
        assert code == 0, f"{argv}: {err}"


def awaited(
    question: Callable[[], Any], story: Callable[[], Any] = lambda: "", within_s: float = SETTLE_S
) -> Any:
    """The first answer that is true; the story is told if there is none in time."""
    deadline = time.monotonic() + within_s
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still not after {within_s} s: {story()}"
        signal.sigtimedwait([], LOOK_S)
    return answer


def passed(seconds: float, *, watching: Callable[[], Any] = lambda: None) -> None:
    """So much time, for what must not happen in it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        watching()
        signal.sigtimedwait([], LOOK_S)
