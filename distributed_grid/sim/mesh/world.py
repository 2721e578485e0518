"""A mesh of machines, their people and their faults: the real kernel in virtual time.

Lives here: the phases of a run, and what it means that everybody agrees. Never here: single faults
(`faults`), the last act (`acts`), rules that hold at every moment (`checkers`).
Invariant: everything follows from the mood; nothing asks a clock, and no order comes from a hash.

A mesh forms, then things fail (safety), then nothing fails any more and within a limit everybody
must agree again (liveness); then comes one act on a calm mesh, with exact limits.
"""

import itertools
import random
from collections.abc import Sequence
from typing import Final, get_args

from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import MeshId
from distributed_grid.sim.keys import Keys
from distributed_grid.sim.mesh.acts import perform
from distributed_grid.sim.mesh.checker import Checker, Violation
from distributed_grid.sim.mesh.faults import Faults
from distributed_grid.sim.mesh.host import Host
from distributed_grid.sim.mesh.moods import SLOWER, Mood, rules_of
from distributed_grid.sim.mesh.network import Network
from distributed_grid.sim.mesh.people import People
from distributed_grid.sim.mesh.timeline import SECOND_US, Timeline
from distributed_grid.wire.mesh import Key

FORM_US: Final = 40 * SECOND_US
KEYS: Final[tuple[Key, ...]] = get_args(Key)
_STEADY: Final = tuple(key for key in KEYS if key != "coordinate")  # It moves all the time.
_TOLD: Final = frozenset(
    {"node.joined", "node.left", "node.dead", "node.alive", "mesh.clone", "mesh.refused"}
)


class World:
    """A run under way."""

    def __init__(self, mood: Mood, checkers: Sequence[Checker] = ()) -> None:
        self.mood = mood
        self.checkers = checkers
        self.rules = rules_of(mood)
        self.tick_us = 50_000 * {"lan": 1, "wan": 3, "slow": SLOWER}[mood.pace]
        self.timeline = Timeline()
        self.trace: list[str] = []
        self.rng = random.Random(f"{mood.seed}/mesh world")
        self.keys = Keys(mood.seed)
        self.authority = self.keys.make("authority")
        self.mesh_id = MeshId(self.authority.public)
        self.network = Network(self.timeline, random.Random(f"{mood.seed}/network"))
        self.is_rough = False
        self._numbers = itertools.count(1)
        self.hosts = [
            Host(self, f"n{number:02d}", self.keys.make(f"node {number}"))
            for number in range(mood.nodes)
        ]
        self.names = {host.id: host.name for host in self.hosts}
        self.network.hosts = {host.id: host for host in self.hosts}
        self.kicked: set[NodeId] = set()
        self.deaths: list[tuple[Host, Host]] = []  # (observer, whom it thinks dead).
        self.suspicions: list[tuple[Host, Host]] = []  # (observer, whom it suspects).
        self.faults = Faults(self)
        self.people = People(self)

    def next_number(self) -> int:
        """Greater than all before."""
        return next(self._numbers)

    def host(self, node: NodeId) -> Host | None:
        """The machine with this key."""
        return self.network.hosts.get(node)

    # Phases

    def run(self) -> None:
        """From beginning to end; raises Violation."""
        self.form()
        self.endure()
        self.heal()
        perform(self)
        for checker in self.checkers:
            checker.ended(self)

    def form(self) -> None:
        """One founds, the others come with tickets."""
        self.faults.prepare()
        self.people.found()
        self.await_agreement(FORM_US, "the mesh does not form")

    def endure(self) -> None:
        """Things fail."""
        self.is_rough = True
        self.tell("rough")
        self.faults.plan(self.timeline.now_us, self.timeline.now_us + self.mood.span_us)
        self.pass_time(self.mood.span_us)

    def heal(self) -> None:
        """Nothing fails any more: within a limit all must be as if nothing had happened."""
        self.is_rough = False
        self.tell("calm")
        self.faults.stop()
        for checker in self.checkers:
            checker.calmed(self)
        # Whoever was given up is dialled again after the longest wait, and entries that got lost on
        # the way are found by the next full comparison, each minute.
        self.await_agreement(70 * SECOND_US + 2 * self.mood.backoff_most_us, "no agreement")

    def pass_time(self, wait_us: int) -> None:
        """Let things happen for so long."""
        end_us = self.timeline.now_us + wait_us
        while self.timeline.now_us < end_us:
            self.timeline.run_until(min(self.timeline.now_us + SECOND_US, end_us))
            for checker in self.checkers:
                checker.looked(self)

    def await_agreement(self, limit_us: int, complaint: str) -> None:
        """Until everybody agrees, or it has taken too long."""
        end_us = self.timeline.now_us + limit_us
        while problem := self.disagreement():
            if self.timeline.now_us >= end_us:
                raise Violation(f"{complaint} within {limit_us // SECOND_US} s: {problem}")
            self.pass_time(10 * self.tick_us)
        self.tell("agreed")

    def deaths_since(self, count: int) -> list[tuple[Host, Host]]:
        """Those that members think of members, after so many."""
        inside = self.insiders()
        return [pair for pair in self.deaths[count:] if pair[0] in inside and pair[1] in inside]

    def suspicions_since(self, count: int) -> list[tuple[Host, Host]]:
        """As above, of suspicions."""
        inside = self.insiders()
        return [pair for pair in self.suspicions[count:] if pair[0] in inside and pair[1] in inside]

    # Agreement

    def insiders(self) -> list[Host]:
        """Whoever should be a member."""
        return [host for host in self.hosts if self.people.wants_in(host)]

    def disagreement(self) -> str:
        """What somebody sees differently from what is so; empty if all is well."""
        inside = self.insiders()
        awake = [host for host in inside if host.is_awake]
        for host in awake:
            if host.kernel.roster is None:
                return f"{host} is not in"
        if not awake:
            return ""
        return next(
            filter(None, (self._wrong_about(host, inside) for host in awake)), ""
        ) or self._different(awake, inside)

    def _wrong_about(self, host: Host, inside: list[Host]) -> str:
        mesh = host.kernel
        assert mesh.roster is not None, "looked at before"
        expected = {other.id for other in inside}
        seen = {node for node in mesh.roster.standings if not mesh.has_left(node)}
        if seen - expected:
            odd = sorted(self.names.get(node, node[:8]) for node in seen - expected)
            gone = [other.id for other in self.hosts if other.is_gone]
            if (seen - expected) - set(gone):
                return f"{host} counts {', '.join(odd)} in"
        for other in inside:
            if other.id not in seen:
                return f"{host} does not count {other} in"
            health = mesh.liveness.health(other.id).health if other is not host else "alive"
            if health != ("alive" if other.is_awake else "dead"):
                return f"{host} sees {other} as {health}"
            if other.is_awake:
                load = mesh.said.load(other.id)
                if load is None or load.cpu_milli_free != other.load:
                    seen_load = load.cpu_milli_free if load else None
                    return f"{host} has {seen_load} of {other}, which said {other.load}"
        return ""

    def _different(self, awake: list[Host], inside: list[Host]) -> str:
        first = awake[0].kernel.replica
        assert first is not None, "looked at before"
        for host in awake[1:]:
            replica = host.kernel.replica
            assert replica is not None, "looked at before"
            for other in inside:
                for key in _STEADY:
                    ours, theirs = first.entry(other.id, key), replica.entry(other.id, key)
                    if ours != theirs:
                        return f"{awake[0]} and {host} differ about {other}'s {key}"
        return ""

    # The story

    def happened(self, host: Host, one: Happened) -> None:
        """A kernel tells something."""
        node = one.fields.get("node", "")
        if one.name in _TOLD:
            why = one.fields.get("why") or one.fields.get("reason") or ""
            name = self.names.get(node, node[:8])
            self.tell(f"{host}: {one.name} {name} {why}".rstrip())
        other = self.host(node)
        if one.name == "node.dead" and other is not None:
            self.deaths.append((host, other))
        if one.name == "node.suspect" and other is not None:
            self.suspicions.append((host, other))
        for checker in self.checkers:
            checker.happened(self, host, one.name, node)

    def tell(self, what: str) -> None:
        """Add a line to the trace."""
        now_us = self.timeline.now_us
        self.trace.append(f"{now_us // SECOND_US:>5}.{now_us // 1_000 % 1_000:03d} {what}")
