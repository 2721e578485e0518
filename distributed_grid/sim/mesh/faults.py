"""What goes wrong, when, and how it is put right again.

Lives here: every fault with its switch in the mood. Never here: rules (`checkers`).
Invariant: an old disk comes back on a minority of machines only, and never on the founder's; when
it gets calm everything that can be put right is.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from distributed_grid.sim.mesh.strangers import Strangers
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.mesh import PREVIOUS

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host
    from distributed_grid.sim.mesh.world import World


class Faults:
    """The faults of one run."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.rng = world.rng
        self.strangers = Strangers(world)
        self.old: set[str] = set()  # Whose disk was once an old one.
        self.forgetful: set[str] = set()  # Whose disk was once lost.
        self._addresses = 1

    # Before and after

    def prepare(self) -> None:
        """What is so from the beginning: old programmes, machines behind a router, clocks."""
        mood, rng = self.world.mood, self.rng
        for host in self.world.hosts:
            if rng.random() * 1_000 < mood.old_protocol_milli:
                host.rules = msgspec.structs.replace(host.rules, speaks=(PREVIOUS,))
            if mood.drift_ppm:
                host.clock.drift_ppm = rng.randint(-mood.drift_ppm, mood.drift_ppm)
            if host is not self.world.hosts[0]:
                host.is_hidden = rng.random() * 1_000 < mood.hidden_milli

    def plan(self, begin_us: int, end_us: int) -> None:
        """Everything that will fail between these moments."""
        mood, network = self.world.mood, self.world.network
        network.loss_milli, network.duplicate_milli = mood.loss_milli, mood.duplicate_milli
        network.delay_us, network.jitter_us = mood.delay_us, mood.jitter_us
        for _ in range(mood.asymmetric):
            one, other = self.rng.sample(self.world.hosts, 2)
            self.world.tell(f"{other} no longer hears {one}")
            network.block([(one.address, other.address)])
        plans: tuple[tuple[int, Callable[[], None]], ...] = (
            (mood.partition_every_us, partial(self._part, is_one_way=False)),
            (mood.one_way_every_us, partial(self._part, is_one_way=True)),
            (mood.crash_every_us, self._crash),
            (mood.amnesia_every_us, self._lose_disk),
            (mood.old_disk_every_us, self._old_disk),
            (mood.full_disk_every_us, self._fill_disk),
            (mood.torn_every_us, self._tear),
            (mood.pause_every_us, self._pause),
            (mood.jump_every_us, self._jump),
            (mood.move_every_us, self._move),
            (mood.stranger_every_us, self.strangers.knock),
            (mood.forger_every_us, self.strangers.lie),
            (2 * SECOND_US if mood.old_disk_every_us else 0, self._copy_disk),
        )
        for mean_us, what in plans:
            self._every(mean_us, what, begin_us, end_us)
        people = self.world.people
        late = self.world.hosts[len(self.world.hosts) - mood.latecomers :]
        singles = [people.kick] * mood.kicks + [people.leave] * mood.leaves
        singles += [partial(people.come, host) for host in late if mood.latecomers]
        for single in singles:
            self.world.timeline.at(self.rng.randrange(begin_us, end_us), single)

    def stop(self) -> None:
        """Put everything right."""
        self.world.network.heal()
        for host in self.world.hosts:
            host.disk.is_tearing = False
            host.room_again()
            host.wake()
            if not host.is_up and not host.is_gone and self.world.people.wants_in(host):
                host.start()

    def _every(self, mean_us: int, what: Callable[[], None], begin_us: int, end_us: int) -> None:
        at_us = begin_us
        while mean_us and (at_us := at_us + self.rng.randint(1, 2 * mean_us)) < end_us:
            self.world.timeline.at(at_us, what)

    def _some(self, *, not_first: bool = False) -> "Host | None":
        able = [host for host in self.world.insiders() if host.is_awake]
        if not_first:
            able = [host for host in able if host is not self.world.hosts[0]]
        return self.rng.choice(able) if able else None

    # The network

    def _part(self, *, is_one_way: bool) -> None:
        hosts = self.world.hosts[:]
        self.rng.shuffle(hosts)
        count = self.rng.randint(1, len(hosts) - 1)
        left, right = hosts[:count], hosts[count:]
        ways = [(one.address, other.address) for one, other in product(left, right)]
        if not is_one_way:
            ways += [(target, source) for source, target in ways]
        self.world.tell(f"{'one way' if is_one_way else 'parted'}: {left} | {right}")
        self.world.network.block(ways)
        limit_us = 3 * self.world.rules.liveness.dead_us
        self.world.timeline.after(self.rng.randrange(limit_us), self._join_again, ways)

    def _join_again(self, ways: list[tuple[str, str]]) -> None:
        if self.world.is_rough:
            self.world.tell("joined again")
            self.world.network.unblock(ways)

    def _move(self) -> None:
        host = self._some()
        if host is None or host.is_hidden or host is self.world.hosts[0]:
            return
        self._addresses += 1
        self.world.tell(f"{host} has another address")
        host.address = f"{host.name}:{self._addresses}"
        host.describe()

    # Machines

    def _crash(self) -> None:
        if host := self._some():
            self.down(host, "crashes")

    def down(self, host: "Host", what: str) -> None:
        """A crash, and a start some time later."""
        dead_us = self.world.rules.liveness.dead_us
        away_us = self.rng.randrange(self.rng.choice((SECOND_US, dead_us, 4 * dead_us)))
        self.world.tell(f"{host} {what}, back in {away_us // 1_000} ms")
        host.crash()
        self.world.timeline.after(away_us, self._up, host, host.life)

    def _up(self, host: "Host", life: int) -> None:
        if host.life == life and not host.is_up and not host.is_gone:
            host.start()

    def _lose_disk(self) -> None:
        if host := self._some(not_first=True):
            self.down(host, "loses its disk")
            self.forgetful.add(host.name)
            host.disk.erase()

    def _copy_disk(self) -> None:
        for host in self.world.hosts:
            if self.rng.random() < 0.1:
                host.disk.keep_copy()

    def _old_disk(self) -> None:
        host = self._some(not_first=True)
        if host is None or host.disk.copy is None:
            return
        if len(self.old | {host.name}) * 2 < len(self.world.hosts):
            self.down(host, "gets its old disk back")
            self.old.add(host.name)
            host.disk.restore_copy()

    def _fill_disk(self) -> None:
        if host := self._some():
            self.world.tell(f"{host} has a full disk")
            host.disk.is_full = True
            self.world.timeline.after(self.rng.randrange(10 * SECOND_US), host.room_again)

    def _tear(self) -> None:
        if host := self._some():
            host.disk.is_tearing = True

    def _pause(self) -> None:
        if host := self._some():
            away_us = self.rng.randrange(3 * self.world.rules.liveness.dead_us)
            self.world.tell(f"{host} sleeps for {away_us // 1_000} ms")
            host.pause()
            self.world.timeline.after(away_us, self._wake, host, host.life)

    def _wake(self, host: "Host", life: int) -> None:
        if host.life == life and host.is_paused and self.world.is_rough:
            self.world.tell(f"{host} wakes")
            host.wake()

    def _jump(self) -> None:
        if host := self._some():
            by_ms = self.rng.choice((-86_400_000, -3_000, 5_000, 3 * 86_400_000))
            self.world.tell(f"{host}'s wall clock jumps by {by_ms} ms")
            host.clock.wall_off_ms += by_ms

    # Between saving and telling

    def dies_while_saving(self, host: "Host", changes: Mapping[str, bytes | None]) -> bool:
        """A crash in the middle of a transaction, which is then as if it had never begun."""
        is_torn = host.disk.is_tearing
        host.disk.is_tearing = False
        if not self._dies(host, "while saving", is_certain=is_torn):
            return False
        host.disk.tear(changes, self.rng.randrange(len(changes) + 1))
        return True

    def dies_after_saving(self, host: "Host") -> bool:
        """A crash after a transaction, before anybody was told."""
        return self._dies(host, "after saving", is_certain=False)

    def _dies(self, host: "Host", when: str, *, is_certain: bool) -> bool:
        mood = self.world.mood
        if not self.world.is_rough or not mood.crash_milli + is_certain:
            return False
        if not is_certain and self.rng.random() * 1_000 >= mood.crash_milli:
            return False
        self.down(host, f"dies {when}")
        return True
