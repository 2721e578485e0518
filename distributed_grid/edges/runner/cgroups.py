"""A pool of control groups that jobs are born into: version 2 where it is writable, else version 1.

Lives here: finding a place to make groups, making, limiting, entering and removing them. Never
here: reading a machine's own limits (`edges.probe.cgroup`), limits without groups (`watchdog`).
Invariant: the keeper is never inside a group while that group limits memory or cpu.

A new group for each job would halve the rate of short jobs, so groups are made once, given back and
taken again, and a limit is written only when it changes. Children inherit the group of the keeper,
which steps into it to spawn. Writing `0` to the v1 file `tasks` moves one thread without the global
lock that `cgroup.procs` takes; the keeper has only one.
Source: the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{memory,pids}.rst.
"""

import os
import signal
from typing import Final

from distributed_grid.edges.runner import reap
from distributed_grid.edges.runner.cgroup_files import Files, Place, lent_place, places, yield_cpu
from distributed_grid.wire.keeper import Limits, Slot

PREFIX: Final = "grid-"
CPU_PERIOD_US: Final = 100_000  # The kernel's own default; shorter ones cost more switches.
CPU_QUOTA_US_MIN: Final = 1_000  # The kernel refuses less.
CONTROLLERS: Final = ("pids", "memory", "cpu")  # The first that works also tells who is inside.


class Group:
    """One member of the pool: a directory in each hierarchy."""

    def __init__(
        self, places: dict[str, Place], name: str, *, is_v2: bool, is_borrowed: bool = False
    ) -> None:
        self.name = name
        self.is_borrowed = is_borrowed  # The owner's programs come first.
        self._cpu_place = places.get("cpu")
        self._is_v2 = is_v2
        self._files = {controller: Files(place, name) for controller, place in places.items()}
        self._tracker = next(iter(self._files.values()))
        self._set: dict[str, str] = {}
        self._kills_before = 0
        self.limits = Limits()
        self._is_idle = False

    def enter(self, limits: Limits, slot: Slot) -> None:
        """Step in with the keeper, so that the next child is born here."""
        self.limits = limits
        # One more than allowed: the keeper itself may be inside.
        self._limit(
            "pids", "pids.max", str(limits.processes_max + 1 if limits.processes_max else "max")
        )
        self._tracker.enter()
        if limits.memory_bytes and "memory" in self._files:
            self._kills_before = self._kills()
            self._files["memory"].enter()
        if "cpu" in self._files and (self.is_borrowed or needs_quota(limits, slot)):
            self._weigh_cpu(is_idle=False)
            self._files["cpu"].enter()

    def leave(self, slot: Slot) -> bool:
        """Step out where it would hurt to stay, then limit; False if the child is too big already.

        The limits come after: inside, the keeper would wait with a throttled job, and might be the
        one whom the kernel chooses to end when memory runs out.
        """
        limits = self.limits
        if self._is_v2:
            self._tracker.go_home()
        if limits.memory_bytes and "memory" in self._files:
            self._files["memory"].go_home()
        if "cpu" in self._files:
            self._files["cpu"].go_home()
            if needs_quota(limits, slot):
                self._limit_cpu(limits.cpu_milli)
            elif self._set.get("cpu", "max") != "max":
                self._limit_cpu(0)
            self._weigh_cpu(is_idle=True)
        return self._limit_memory(limits.memory_bytes)

    def members(self) -> list[int]:
        """Who is inside, the keeper excepted."""
        keeper = os.getpid()
        return [pid for pid in self._tracker.members() if pid != keeper]

    def end_members(self) -> int:
        """Kill everybody inside, without letting anybody be born meanwhile; how many there were."""
        if self._tracker.count() <= self._tracker.is_keeper_inside():
            return 0
        members = self.members()
        if members:
            self._limit("pids", "pids.max", "0")
            for pid in members:
                reap.send_signal(pid, signal.SIGKILL)
        return len(members)

    def unlock_memory(self) -> None:
        """Lift the limit of memory, so that the keeper may step in safely."""
        self._limit_memory(0)

    def unlock(self) -> None:
        """The same while somebody is inside, who may use up all that he may of the cpu too."""
        self.unlock_memory()
        if self._set.get("cpu", "max") != "max":
            self._limit_cpu(0)

    def was_out_of_memory(self) -> bool:
        """Whether the kernel ended somebody here for memory since the last `enter`."""
        return "memory" in self._files and bool(
            self.limits.memory_bytes and self._kills() > self._kills_before
        )

    def remove(self) -> None:
        """Take the directories away; they must be empty."""
        for files in self._files.values():
            files.remove()

    def _kills(self) -> int:
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        for line in self._files["memory"].read(name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def _limit(self, controller: str, name: str, value: str) -> None:
        if controller in self._files and self._set.get(name) != value:
            self._files[controller].write(name, value)
            self._set[name] = value

    def _limit_cpu(self, cpu_milli: int) -> None:
        quota_us = max(cpu_milli * CPU_PERIOD_US // 1_000, CPU_QUOTA_US_MIN) if cpu_milli else 0
        if self._is_v2:
            self._limit("cpu", "cpu.max", f"{quota_us or 'max'} {CPU_PERIOD_US}")
        else:
            self._limit("cpu", "cpu.cfs_quota_us", str(quota_us or -1))
        self._set["cpu"] = str(quota_us or "max")

    def _weigh_cpu(self, *, is_idle: bool) -> None:
        """Inside of a group, niceness counts among its members only: the group itself yields.

        Never while the keeper is inside: on a busy machine it would not come out again for long.
        """
        if not self.is_borrowed:
            return
        if self._cpu_place and self._cpu_place.is_lent:
            self._cpu_place.yield_cpu(is_idle=is_idle)  # For all of its groups.
        elif self._is_v2 and is_idle != self._is_idle:
            self._is_idle = is_idle
            yield_cpu(self._files["cpu"].path, is_v2=True, is_idle=is_idle)

    def _limit_memory(self, memory_bytes: int) -> bool:
        if "memory" not in self._files:
            return True
        name = "memory.max" if self._is_v2 else "memory.limit_in_bytes"
        unlimited = "max" if self._is_v2 else "-1"
        try:
            self._limit("memory", name, str(memory_bytes or unlimited))
        except OSError:
            return False  # Busy: more is in use than would be allowed.
        return True


class CgroupPool:
    """Groups of one keeper; `limits` says which kinds of limits they enforce."""

    def __init__(self, keeper_id: str, *, root: str = "/sys/fs/cgroup") -> None:
        self._name = f"{PREFIX}{os.getpid()}-{keeper_id[:8]}"
        self._places, self._is_v2 = places(root, self._name, CONTROLLERS)
        self._idle: list[Group] = []
        self._idle_lent: list[Group] = []
        self._lent: dict[str, Place] = {}  # Where groups of borrowers are; empty: none yet.
        self._made = 0

    @property
    def name(self) -> str:
        """The directory that holds all groups of this keeper; kept for who comes after it."""
        return self._name

    @property
    def paths(self) -> list[str]:
        """Where that directory is, in each hierarchy."""
        return sorted({place.path for place in self._all_places})

    @property
    def _all_places(self) -> list[Place]:
        return [*self._places.values(), *self._lent.values()]

    @property
    def enforces(self) -> dict[str, str]:
        """Controller to mechanism, of those that work here."""
        return dict.fromkeys(self._places, "cgroup v2" if self._is_v2 else "cgroup v1")

    def take(self, *, is_borrowed: bool = False) -> Group | None:
        """An empty group, or None where groups cannot be made."""
        idle = self._idle_lent if is_borrowed else self._idle
        if idle:
            group = idle.pop()
            group.unlock_memory()
            return group
        if not self._places:
            return None
        where = self._lent_places() if is_borrowed else self._places
        name = f"slot-{self._made}"
        self._made += 1
        return Group(where, name, is_v2=self._is_v2, is_borrowed=is_borrowed)

    def _lent_places(self) -> dict[str, Place]:
        """The same, but of version 1 with an own one for cpu: a weight counts among siblings."""
        if self._is_v2 or "cpu" not in self._places:
            return self._places
        if not self._lent and (place := lent_place(self._places["cpu"])):
            self._lent = {"cpu": place}
        return {**self._places, **self._lent}

    def give_back(self, group: Group) -> None:
        """An empty group, for the next job."""
        (self._idle_lent if group.is_borrowed else self._idle).append(group)

    def go_home(self) -> None:
        """Step out of every group, as before the agent is started."""
        for place in self._all_places:
            place.go_home()

    def remove(self) -> None:
        """Take away every group that is not in use, and the pool."""
        self.go_home()
        for group in (*self._idle, *self._idle_lent):
            group.remove()
        for place in self._all_places:
            place.remove()

    def remove_leftovers(self, of_predecessor: str) -> None:
        """Groups of keepers that are dead. Of our data directory's last one: its processes too."""
        for place in self._places.values():
            place.remove_leftovers(PREFIX, of_predecessor)


def needs_quota(limits: Limits, slot: Slot) -> bool:
    """Whole cores that are pinned limit themselves; fractions and shared cores need a quota."""
    return bool(limits.cpu_milli) and limits.cpu_milli != len(slot.cores) * 1_000
