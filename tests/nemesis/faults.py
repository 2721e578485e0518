"""What is done to machines and to networks, each with what undoes it, dealt out from a seed.

Lives here: the faults, two hands that deal them, healing. Never here: whether anything broke by it.
Invariant: each hand does one thing at a time, and undoes it; after `heal` nothing is left of any.
"""

import contextlib
import os
import random
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.keeper_lab import is_alive, wait_until
from tests.mesh_jobs import heal
from tests.mesh_lab import Member, MeshLab, finished, network_of
from tests.nemesis.history import History, boot_s

DISK_BYTES = 48 << 20
LOSS_PERCENT = 40
CLOCK_S = 7_200
Undo = Callable[[], object]
SOURCE = Path(__file__).with_name("wall_clock.c")


def processes_of(member: Member) -> list[int]:
    """All that runs on its machine, but for what holds its network."""
    network = network_of(member.net.pid)
    found = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in found if pid != member.net.pid and network_of(pid) == network]


class Ground:
    """What the machines of a round have for faults: a small disk, a clock of one's own."""

    def __init__(self, lab: MeshLab, directory: Path) -> None:
        self.small, self.clocked = lab.members[1], lab.members[2]
        self._disk = contextlib.ExitStack()
        self.clock = directory / "clock"
        self.clock.write_bytes(bytes(8))
        library = directory / "wall_clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
        self.clocked.env |= {"LD_PRELOAD": str(library), "GRID_TEST_CLOCK": str(self.clock)}

    def begin(self) -> None:
        home = self.small.home
        home.mkdir()
        size = f"size={DISK_BYTES},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "grid-test", home], check=True)
        self._disk.callback(subprocess.run, ["umount", "--lazy", home], check=True)

    def end(self) -> None:
        self._disk.close()

    def fill(self) -> Undo:
        filler = self.small.home / "filler"
        with filler.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(64 << 10))
        return lambda: filler.unlink(missing_ok=True)

    def set_clock(self, seconds: int) -> None:
        # In place: who has it in memory sees it at once.
        with self.clock.open("r+b") as file:
            file.write(struct.pack("q", seconds))


class Nemesis:
    """Two hands: one for machines, one for networks."""

    def __init__(self, lab: MeshLab, ground: Ground, seed: int, history: History) -> None:
        self._lab, self._ground, self._history = lab, ground, history
        self._members = lab.members[:5]
        self._over = threading.Event()
        self.counts: dict[str, int] = {}
        self.paused: list[tuple[str, float, float]] = []  # Machines: from when, until when.
        machines = (
            self.kill_agent, self.kill_keeper, self.kill_both, self.kill_two, self.pause_machine,
            self.pause_agent, self.restart, self.full_disk, self.clock_jump,
        )  # fmt: skip
        networks = (self.cut, self.one_way, self.loss, self.halves, self.ring)
        self._hands = [
            threading.Thread(target=self._deal, args=(random.Random(f"{seed} {hand}"), faults))
            for hand, faults in (("machines", machines), ("networks", networks))
        ]

    def begin(self) -> None:
        for hand in self._hands:
            hand.start()

    def end(self) -> None:
        self._over.set()
        for hand in self._hands:
            hand.join()

    def _deal(self, dice: random.Random, faults: tuple[Callable[..., Undo], ...]) -> None:
        deck: list[Callable[..., Undo]] = []
        while not self._over.wait(dice.uniform(0.5, 4)):
            deck = deck or dice.sample(faults, len(faults))
            fault = deck.pop()
            victims = dice.sample(self._members, 2)
            name = fault.__name__
            undo = fault(dice, *victims)
            self.counts[name] = self.counts.get(name, 0) + 1
            self._over.wait(dice.uniform(1, 10))
            undo()
            self._history.add("nemesis", f"{name} is over")

    def _tell(self, what: str) -> None:
        self._history.add("nemesis", what)

    # Machines

    def kill_agent(self, _: random.Random, one: Member, __: Member) -> Undo:
        self._tell(f"kill -9 of {one.name}'s agent")
        one.kill("agent")
        return lambda: None  # Its keeper starts another.

    def kill_keeper(self, _: random.Random, one: Member, __: Member) -> Undo:
        self._tell(f"kill -9 of {one.name}'s keeper")
        one.kill("keeper")
        return lambda: self._up([one])

    def kill_both(self, _: random.Random, one: Member, __: Member) -> Undo:
        self._tell(f"kill -9 of {one.name}'s agent and keeper")
        one.kill()
        return lambda: self._up([one])

    def kill_two(self, _: random.Random, one: Member, other: Member) -> Undo:
        self._tell(f"kill -9 of {one.name} and {other.name}")
        one.kill()
        other.kill()
        return lambda: self._up([one, other])

    def pause_machine(self, _: random.Random, one: Member, __: Member) -> Undo:
        """Everything on it stands still: agent, keeper, processes of jobs."""
        self._tell(f"{one.name} stands still")
        began_s, stopped = boot_s(), set[int]()
        while more := {pid for pid in processes_of(one) if is_alive(pid)} - stopped:
            self._signal(signal.SIGSTOP, more)  # Again: what it had just begun to start.
            stopped |= more

        def resume() -> None:
            # Who ends what may not go on is awake first, as far as that can be had here.
            self._signal(signal.SIGCONT, one.pids())
            self._signal(signal.SIGCONT, stopped)
            self.paused.append((one.name, began_s, boot_s()))

        return resume

    def pause_agent(self, _: random.Random, one: Member, __: Member) -> Undo:
        self._tell(f"{one.name}'s agent and keeper stand still")
        one.pause()
        return one.resume

    def restart(self, dice: random.Random, one: Member, _: Member) -> Undo:
        word = dice.choice(("--stop-jobs", "--keep-jobs"))
        self._tell(f"grid down {word} of {one.name}")
        done = one("down", word)
        if done.returncode:
            self._tell(f"grid down of {one.name}: {done.stderr.strip()}")
        return lambda: self._up([one])

    def full_disk(self, *_: object) -> Undo:
        self._tell(f"{self._ground.small.name}'s disk is full")
        return self._ground.fill()

    def clock_jump(self, dice: random.Random, *_: object) -> Undo:
        seconds = dice.choice((-CLOCK_S, -60, 60, CLOCK_S))
        self._tell(f"{self._ground.clocked.name}'s time of day jumps by {seconds} s")
        self._ground.set_clock(seconds)
        return lambda: self._ground.set_clock(0)

    # Networks

    def cut(self, _: random.Random, one: Member, __: Member) -> Undo:
        self._tell(f"{one.name}'s cable is pulled")
        self._lab.host(one.name).unplug()
        return self._lab.host(one.name).plug_in

    def one_way(self, _: random.Random, one: Member, __: Member) -> Undo:
        """It is heard, and hears nobody."""
        self._tell(f"{one.name} hears nobody")
        for other in self._others(one):
            self._lab.host(one.name).deafen(self._lab.host(other.name).address)
        return self._lab.host(one.name).hear

    def loss(self, *_: object) -> Undo:
        self._tell(f"{LOSS_PERCENT} % of everything is lost")
        for member in self._lab.members:
            self._lab.host(member.name).lose(LOSS_PERCENT)
        return self._hear

    def halves(self, dice: random.Random, *_: object) -> Undo:
        left = dice.sample(self._lab.members, len(self._lab.members) // 2)
        names = {member.name for member in left}
        self._tell(f"{', '.join(sorted(names))} and the others do not hear each other")
        for one in self._lab.members:
            for other in self._others(one):
                if (one.name in names) != (other.name in names):
                    self._lab.host(one.name).deafen(self._lab.host(other.name).address)
        return self._hear

    def ring(self, dice: random.Random, *_: object) -> Undo:
        """Each hears two others, and no two see the same mesh."""
        order = dice.sample(self._lab.members, len(self._lab.members))
        self._tell(f"each hears its neighbours only: {', '.join(one.name for one in order)}")
        for at, one in enumerate(order):
            near = {order[at - 1].name, order[(at + 1) % len(order)].name}
            for other in self._others(one):
                if other.name not in near:
                    self._lab.host(one.name).deafen(self._lab.host(other.name).address)
        return self._hear

    def _others(self, one: Member) -> Iterator[Member]:
        return (member for member in self._lab.members if member is not one)

    def _hear(self) -> None:
        heal(self._lab)

    # Healing

    @staticmethod
    def _signal(number: int, pids: set[int] | list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _up(self, members: list[Member]) -> None:
        for member in members:
            # Of one whose keeper died, or was told to stop, the agent may be about to end.
            with contextlib.suppress(AssertionError):
                wait_until(lambda member=member: len(member.pids()) != 1, within_s=10)
        started = [(one, one.start_up()) for one in members if not one.pids()]
        for member, process in started:
            try:
                finished([process])
            except AssertionError as error:
                self._tell(f"{member.name} did not start: {error}")

    def heal(self) -> None:
        """Every machine is up, hears all, and has room; raises if one does not come back."""
        self._tell("all is healed")
        heal(self._lab)
        for member in self._lab.members:
            self._lab.host(member.name).plug_in()
        self._ground.set_clock(0)
        self._up(self._members)
        self._lab.settled(self._members)
