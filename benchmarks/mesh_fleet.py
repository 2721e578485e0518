"""Real agents of one mesh, in the network of this process: to start them, to ask, to hurt them.

Lives here: the fleet, and entering a network that is nothing but a loopback. Never here: what is
measured (`mesh_forming`, `mesh_deaths`, `mesh_resting`).
Invariant: nothing leaves the namespace, and after `fleet` no agent of it is left.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.peers.environment import peers_python
from distributed_grid.client import mesh_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.streams import Events
from distributed_grid.errors import GridError
from distributed_grid.wire.api import Event
from distributed_grid.wire.mesh_api import NodeView

ROOT = Path(__file__).parents[1]
GRID = (sys.executable, "-m", "distributed_grid")
INSIDE = "GRID_BENCH_INSIDE"  # Set in a process that runs in a network of its own.
STARTS_AT_ONCE = 4  # More would only wait for two cores.
LOOK_S = 0.02
PATIENCE_S = 120.0


def enter_network(*, with_peers: bool = False) -> None:
    """Begin this program again in a network of its own; returns inside.

    From there nothing can be installed: peers that are to be measured are, before.
    """
    if os.environ.get(INSIDE):
        return
    if with_peers:
        peers_python()
    os.environ[INSIDE] = "1"
    inside = 'ip link set lo up && exec "$@"'
    argv = [sys.executable, *sys.orig_argv[1:]]
    os.execvp("unshare", ["unshare", "--net", "--", "sh", "-c", inside, "sh", *argv])  # noqa: S606


class Agent:
    """One of them."""

    def __init__(self, folder: Path, number: int, config: str = "") -> None:
        self.name = f"n{number:02d}"
        self.home = folder / self.name
        self._caller: Caller | None = None
        self._words: list[str] = []
        if config:
            file = folder / f"{self.name}.yaml"
            file.write_text(config)
            self._words = ["--config", str(file)]
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "GRID_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
        }

    def up(self) -> None:
        """Start agent and keeper; returns when the agent answers."""
        argv = [*GRID, "up", "--detach", "--name", self.name, *self._words]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def down(self) -> None:
        """End both, by force if they do not answer."""
        self.resume()
        self.resume()
        subprocess.run(
            [*GRID, "down", "--stop-jobs"],
            env=self.env,
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.kill()

    def kill(self) -> None:
        """End keeper and agent by SIGKILL."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Both hang."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """And go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def pids(self) -> list[int]:
        """Keeper first: it would start another agent."""
        files = [self.home / f"{who}.pid" for who in ("keeper", "agent")]
        return [int(file.read_text()) for file in files if file.exists()]

    @property
    def caller(self) -> Caller:
        """One connection, kept."""
        if self._caller is None:
            self._caller = Caller(str(self.home / "agent.sock"), coming_s=5)
        return self._caller

    def nodes(self) -> dict[str, NodeView]:
        """Everyone it knows, by name; nobody, if it does not answer."""
        with contextlib.suppress(GridError):
            return {node.name: node for node in self.caller.run(mesh_calls.nodes()).nodes}
        return {}

    def lacks(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these that are not alive to it and linked with it, and how they are."""
        seen = self.nodes()
        states = {
            name: f"{seen[name].health}, path {seen[name].path}" if name in seen else "unknown"
            for name in names
        }
        good = {"alive, path direct", "alive, path relayed", "alive, path self"}
        return {name: state for name, state in states.items() if state not in good}

    def events(self, name: str, about: str = "", since_ms: int = 0) -> list[Event]:
        """What it told of this kind."""
        with Caller(str(self.home / "agent.sock"), coming_s=5) as caller:
            return [
                event
                for event in caller.stream(Events(after=0, follow=False))
                if event.name == name
                and event.at_ms >= since_ms
                and (not about or event.fields.get("name") == about)
            ]

    def join(self, ticket: str) -> None:
        """Join over HTTP, as `grid join` does."""
        self.caller.run(mesh_calls.join(ticket))

    def ticket(self, uses: int) -> str:
        """Found a mesh if there is none, and let others in."""
        return self.caller.run(mesh_calls.ticket(uses=uses)).text

    def cpu_s(self) -> float:
        """Used by agent and keeper so far."""
        return sum(cpu_s(pid) for pid in self.pids())

    def pss_bytes(self) -> int:
        """Of agent and keeper, shared pages counted by share."""
        return sum(pss_bytes(pid) for pid in self.pids())


@contextlib.contextmanager
def fleet(count: int, config: str = "") -> Iterator[list[Agent]]:
    """So many agents, in no mesh and not up; gone afterwards."""
    assert os.environ.get(INSIDE), "in a network of its own only"
    with tempfile.TemporaryDirectory(prefix="grid-mesh-") as folder:
        agents = [Agent(Path(folder), number, config) for number in range(count)]
        try:
            yield agents
        finally:
            at_once(agents, Agent.down)


@contextlib.contextmanager
def formed(count: int) -> Iterator[list[Agent]]:
    """So many agents, one mesh."""
    with fleet(count) as agents:
        at_once(agents, Agent.up)
        form(agents)
        yield agents


def form(agents: Sequence[Agent]) -> float:
    """The first one founds, the others join all at once; seconds until everyone sees everyone."""
    begin = time.monotonic()
    ticket = agents[0].ticket(uses=len(agents))
    at_once(agents[1:], lambda agent: agent.join(ticket), width=len(agents))
    settled(agents)
    return time.monotonic() - begin


def settled(agents: Sequence[Agent], names: Iterable[str] = ()) -> None:
    """Until each of them sees all of these (of them), alive and linked."""
    wanted = list(names) or [agent.name for agent in agents]
    waiting = list(agents)
    deadline = time.monotonic() + PATIENCE_S
    while waiting:
        waiting = [agent for agent in waiting if agent.lacks(wanted)]
        is_late = time.monotonic() >= deadline
        assert not is_late, f"not settled: {[(one.name, one.lacks(wanted)) for one in waiting]}"
        time.sleep(LOOK_S)


def at_once(
    agents: Iterable[Agent], work: Callable[[Agent], None], width: int = STARTS_AT_ONCE
) -> None:
    """Do something with all, several at a time."""
    with ThreadPoolExecutor(width) as pool:
        list(pool.map(work, agents))


def cpu_s(pid: int) -> float:
    """Used by one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_bytes(pid: int) -> int:
    """Of one process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) << 10


def sent_bytes() -> int:
    """By everyone in this network, headers included."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[9])


def quantiles(samples: Iterable[float], digits: int = 2) -> dict[str, float]:
    """p50, p99 and the worst."""
    ordered = sorted(samples)
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "p50": round(ordered[last // 2], digits),
        "p99": round(ordered[min(-(-99 * last // 100), last)], digits),
        "most": round(ordered[-1], digits),
    }
