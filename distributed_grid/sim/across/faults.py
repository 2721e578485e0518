"""What goes wrong, when, and how it is put right again.

Lives here: every fault with its switch in the mood. Never here: rules (`checkers`).
Invariant: old disks come back on a minority of machines only; machines that are lost for good are a
minority too, and known from the beginning; when it gets calm everything else is put right.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from distributed_grid.kernel.node import Drain
from distributed_grid.sim.across.disk import Change
from distributed_grid.sim.across.network import Way, between
from distributed_grid.sim.across.verdicts import DEAD_US
from distributed_grid.sim.mesh.timeline import SECOND_US

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine
    from distributed_grid.sim.across.world import World

_AWAY_US: Final = (SECOND_US // 2, DEAD_US, 5 * DEAD_US)  # How long one is away, at most.
_RESTART_US: Final = 4 * SECOND_US  # How long a planned restart takes, at most.


class Faults:
    """The faults of one run."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.rng = world.rng
        self.old: set[int] = set()  # Whose disk was once an old one.

    # Before and after

    def prepare(self) -> None:
        """What is so from the beginning: clocks, machines behind a router, laptops."""
        mood, rng = self.world.mood, self.rng
        for machine in self.world.machines:
            if mood.drift_ppm:
                machine.drift_ppm = rng.randint(-mood.drift_ppm, mood.drift_ppm)
            machine.is_hidden = rng.randrange(1_000) < mood.hidden_milli
            machine.is_laptop = rng.randrange(1_000) < mood.laptop_milli
        for machine in self.world.machines[mood.nodes - mood.latecomers :]:
            machine.is_member = False

    def plan(self, begin_us: int, end_us: int) -> None:
        """Everything that will fail between these moments."""
        mood, network = self.world.mood, self.world.network
        network.loss_milli, network.duplicate_milli = mood.loss_milli, mood.duplicate_milli
        network.delay_us, network.jitter_us = mood.delay_us, mood.jitter_us
        network.late_milli = mood.late_milli
        plans: tuple[tuple[int, Callable[[], None]], ...] = (
            (mood.partition_every_us, self._part),
            (mood.lone_every_us, partial(self._part, count=1)),
            (mood.one_way_every_us, partial(self._part, is_one_way=True)),
            (mood.flap_every_us, self._flap),
            (mood.link_every_us, self._cut_link),
            (mood.false_verdict_every_us, self._err),
            (mood.crash_every_us, self._crash),
            (mood.reboot_every_us, self._reboot),
            (mood.keeper_every_us, self._keeper_dies),
            (mood.restart_every_us, self._restart),
            (mood.amnesia_every_us, self._lose_disk),
            (mood.old_disk_every_us, self._old_disk),
            (2 * SECOND_US if mood.old_disk_every_us else 0, self._copy_disk),
            (mood.full_disk_every_us, self._fill_disk),
            (mood.torn_every_us, self._tear),
            (mood.pause_every_us, self._pause),
            (mood.freeze_every_us, self._freeze),
            (mood.owner_every_us, self._owner_comes),
            (mood.drain_every_us, self._drain),
        )
        for mean_us, what in plans:
            at_us = begin_us
            while mean_us and (at_us := at_us + self.rng.randint(1, 2 * mean_us)) < end_us:
                self.world.timeline.at(at_us, what)
        for machine in self.world.doomed:
            at_us = self.rng.randrange(begin_us, end_us)
            self.world.timeline.at(at_us, self.lose, machine)
        for machine in self.world.machines:
            if not machine.is_member:
                self.world.timeline.at(self.rng.randrange(begin_us, end_us), self._join, machine)

    def stop(self) -> None:
        """Put everything right, but for those that are lost."""
        self.world.network.heal()
        for machine in self.world.machines:
            if machine.is_gone:
                continue
            machine.disk.is_tearing = False
            machine.room_again()
            machine.desk.go(machine.now_ms())
            machine.wake()
            machine.thaw()
            if not machine.is_member:
                self._join(machine)
            elif not machine.is_up:
                machine.start()
            self._undrain(machine)
        self.world.verdicts.reconsider()

    def _some(self) -> "Machine | None":
        able = [one for one in self.world.machines if one.is_awake]
        return self.rng.choice(able) if able else None

    # The network

    def _part(self, *, count: int = 0, is_one_way: bool = False) -> None:
        numbers = [machine.number for machine in self.world.machines]
        self.rng.shuffle(numbers)
        count = count or self.rng.randint(1, len(numbers) // 2)
        left, right = sorted(numbers[:count]), sorted(numbers[count:])
        ways = between(left, right)
        if is_one_way:
            ways = ways[: len(ways) // 2] if self.rng.random() < 0.5 else ways[len(ways) // 2 :]
        self.world.tell(f"{'one way' if is_one_way else 'parted'}: {left} | {right}")
        self._block(ways, self.rng.randrange(self.rng.choice((DEAD_US, 4 * DEAD_US, 8 * DEAD_US))))

    def _block(self, ways: list[Way], for_us: int) -> None:
        self.world.network.block(ways)
        self.world.timeline.after(for_us, self._unblock, ways)

    def _unblock(self, ways: list[Way]) -> None:
        if self.world.is_rough:
            self.world.tell("joined again")
            self.world.network.unblock(ways)

    def _flap(self) -> None:
        numbers = [machine.number for machine in self.world.machines]
        self.rng.shuffle(numbers)
        cut = self.rng.randint(1, len(numbers) - 1)
        ways = between(numbers[:cut], numbers[cut:])
        self.world.tell(f"flapping: {sorted(numbers[:cut])} | {sorted(numbers[cut:])}")
        at_us = 0
        for _ in range(self.rng.randint(2, 6)):
            for_us = self.rng.randrange(100_000, 2 * DEAD_US)
            self.world.timeline.after(at_us, self._flapped, ways, for_us)
            at_us += for_us + self.rng.randrange(50_000, DEAD_US)

    def _flapped(self, ways: list[Way], for_us: int) -> None:
        if self.world.is_rough:
            self._block(ways, for_us)

    def _cut_link(self) -> None:
        one, other = self.rng.sample(self.world.machines, 2)
        self.world.tell(f"no link: {one} - {other}")
        self._block(between([one.number], [other.number]), self.rng.randrange(6 * DEAD_US))

    def _err(self) -> None:
        listener, other = self.rng.sample(self.world.machines, 2)
        if other.is_member:
            self.world.verdicts.err(listener.number, other.number)

    # Machines

    def _join(self, machine: "Machine") -> None:
        if not machine.is_member and not machine.is_gone:
            self.world.tell(f"{machine} joins")
            machine.is_member = True
            machine.start()
            for other in self.world.machines:
                other.is_view_old = True

    def lose(self, machine: "Machine") -> None:
        """It burns down: nothing of it is left."""
        self.world.tell(f"{machine} is lost for good")
        machine.is_gone = True
        self._lost_disk(machine)
        machine.power_off()
        machine.keeper.forget()
        machine.disk.erase()

    def _lost_disk(self, machine: "Machine") -> None:
        self.world.lost_stores |= machine.disk.voting_store
        for checker in self.world.checkers:
            checker.disk_lost(self.world, machine)
        for wish in self.world.wishes.values():
            if machine.disk.has(wish.spec.id):
                wish.lose(self.world.timeline.now_us)

    def _away_us(self) -> int:
        return self.rng.randrange(self.rng.choice(_AWAY_US))

    def _back_after(self, machine: "Machine", away_us: int) -> None:
        self.world.timeline.after(away_us, self._up, machine, machine.life)

    def _up(self, machine: "Machine", life: int) -> None:
        if machine.life == life and not machine.is_up and not machine.is_gone:
            machine.start()

    def _crash(self) -> None:
        if machine := self._some():
            self.crash(machine, "its agent crashes", self._away_us())

    def crash(self, machine: "Machine", what: str, away_us: int) -> None:
        """Of an agent; it is started again."""
        self.world.tell(f"{machine}: {what}, back in {away_us // 1_000} ms")
        machine.crash()
        self._back_after(machine, away_us)

    def _reboot(self) -> None:
        if machine := self._some():
            self.reboot(machine, self._away_us())

    def reboot(self, machine: "Machine", away_us: int) -> None:
        """Of a machine, with all that runs there."""
        self.world.tell(f"{machine} loses power, back in {away_us // 1_000} ms")
        machine.power_off()
        self._back_after(machine, away_us)

    def _keeper_dies(self) -> None:
        if machine := self._some():
            self.world.tell(f"{machine}: its keeper dies")
            machine.keeper_dies()
            self._back_after(machine, self._away_us())

    def _restart(self) -> None:
        if machine := self._some():
            self.restart(machine, self.rng.randrange(_RESTART_US))

    def restart(self, machine: "Machine", away_us: int) -> None:
        """As told before: peers know until when, if they hear of it in time."""
        self.world.announce(machine, self.world.timeline.now_us + 60 * SECOND_US)
        self.world.timeline.after(300_000, self._restart_now, machine, machine.life, away_us)

    def _restart_now(self, machine: "Machine", life: int, away_us: int) -> None:
        if machine.life == life and machine.is_awake:
            self.crash(machine, "restarts", away_us)

    def _lose_disk(self) -> None:
        if machine := self._some():
            self.lose_disk(machine, self._away_us())

    def lose_disk(self, machine: "Machine", away_us: int) -> None:
        """It comes back with nothing but its key."""
        self._lost_disk(machine)
        self.reboot(machine, away_us)
        self.world.tell(f"{machine} has lost its disk")
        machine.keeper.forget()
        machine.disk.erase()

    def _copy_disk(self) -> None:
        for machine in self.world.machines:
            if self.rng.random() < 0.2:
                machine.disk.keep_copy()

    def _old_disk(self) -> None:
        machine = self._some()
        if machine is None or not machine.disk.has_copy:
            return
        if len(self.old | {machine.number}) * 2 < len(self.world.machines):
            self.old.add(machine.number)
            self._lost_disk(machine)
            self.reboot(machine, self._away_us())
            self.world.tell(f"{machine} gets its old disk back")
            machine.keeper.forget()
            machine.disk.restore_copy()

    def _fill_disk(self) -> None:
        if machine := self._some():
            self.world.tell(f"{machine} has a full disk")
            machine.disk.is_full = True
            self.world.timeline.after(self.rng.randrange(10 * SECOND_US), machine.room_again)

    def _tear(self) -> None:
        if machine := self._some():
            machine.disk.is_tearing = True

    def _pause(self) -> None:
        if machine := self._some():
            away_us = self.rng.randrange(self.rng.choice((DEAD_US, 8 * DEAD_US)))
            self.world.tell(f"{machine} sleeps for {away_us // 1_000} ms")
            machine.pause()
            self.world.timeline.after(away_us, self._wake, machine, machine.life)

    def _wake(self, machine: "Machine", life: int) -> None:
        if machine.life == life and machine.is_paused:
            self.world.tell(f"{machine} wakes")
            machine.wake()

    def _freeze(self) -> None:
        if machine := self._some():
            away_us = self.rng.randrange(self.rng.choice((DEAD_US, 6 * DEAD_US)))
            self.world.tell(f"{machine}: its agent is stopped for {away_us // 1_000} ms")
            machine.freeze()
            self.world.timeline.after(away_us, self._thaw, machine, machine.life)

    def _thaw(self, machine: "Machine", life: int) -> None:
        if machine.life == life and machine.is_frozen:
            self.world.tell(f"{machine}: its agent goes on")
            machine.thaw()

    def _owner_comes(self) -> None:
        if machine := self._some():
            self.world.tell(f"{machine}: its owner comes")
            machine.desk.come(machine.now_ms())
            self.world.timeline.after(self.rng.randrange(15 * SECOND_US), self._owner_goes, machine)

    def _owner_goes(self, machine: "Machine") -> None:
        machine.desk.go(machine.now_ms())

    def _drain(self) -> None:
        if machine := self._some():
            self.world.tell(f"{machine} is drained")
            for_us = self.rng.randrange(15 * SECOND_US)
            machine.step(Drain(now_ms=machine.now_ms(), is_now=for_us % 2 == 1))
            self.world.timeline.after(for_us, self._undrain, machine)

    def _undrain(self, machine: "Machine") -> None:
        if machine.is_awake and machine.kernel.host.is_draining:
            self.world.tell(f"{machine} is drained no more")
            machine.step(Drain(now_ms=machine.now_ms(), is_on=False))

    # Between saving and telling

    def dies_while_saving(self, machine: "Machine", changes: list[Change]) -> bool:
        """A crash in the middle of a transaction, which is then as if it had never begun."""
        is_torn = machine.disk.is_tearing
        machine.disk.is_tearing = False
        if not self._dies(machine, "dies while saving", is_certain=is_torn):
            return False
        machine.disk.tear(changes, self.rng.randrange(len(changes) + 1))
        return True

    def dies_after_saving(self, machine: "Machine") -> bool:
        """A crash after a transaction, before anybody was told."""
        return self._dies(machine, "dies after saving", is_certain=False)

    def _dies(self, machine: "Machine", what: str, *, is_certain: bool) -> bool:
        chance_milli = self.world.mood.crash_milli
        if not self.world.is_rough or not (chance_milli or is_certain):
            return False
        if not is_certain and self.rng.randrange(1_000) >= chance_milli:
            return False
        self.crash(machine, what, self._away_us())
        return True
