"""A machine with the real kernel on it: what an agent, a keeper and a disk would do around it.

Lives here: carrying out what the kernel wants, in order; lives, pauses, clocks. Never here: the way
between machines (`network`), when something fails (`faults`), what is right (`checkers`).
Invariant: nothing of a step leaves the machine before its save is durable. What there is nothing to
save of is told at once, also while an earlier save is under way: that is how agents do it.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import (
    Beat,
    Met,
    Node,
    NodeEvent,
    Reports,
    Rules,
    Sampled,
    Tick,
    Told,
    View,
)
from distributed_grid.kernel.ready import Ready, rests_on_earlier_steps
from distributed_grid.kernel.restarting import recall
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.lending import Terms, Thresholds
from distributed_grid.sim.across.disk import Change, Disk, changes_of
from distributed_grid.sim.across.introducing import described
from distributed_grid.sim.across.keeper import LOOK_US, Keeper
from distributed_grid.sim.desk import Desk
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.job_lane import JobMessage
from distributed_grid.wire.keeper import Run

if TYPE_CHECKING:
    from distributed_grid.sim.across.world import World

Lane = Literal["look", "tick", "told", "keeper"]  # In each, one step after the other.
START_MS: Final = 60_000  # Not 0, which means "never" in many places.
SAMPLE_US: Final = 5 * SECOND_US
TICK_US: Final = SECOND_US
PUBLISH_US: Final = SECOND_US
BEAT_LOOKS: Final = 5  # Of an agent, ten a second: then it says again what was not answered.
VIEW_US: Final = 200_000  # A new agent has links, and knows who is there, at most so much later.
BUFFERED: Final = 40  # Messages that wait for a machine that sleeps.
_PATHS: Final = Paths(output_root="/out", scratch_root="/scratch", checkpoint_root="/saved")
_TERMS: Final = Terms(
    policy="aggressive",
    check_interval_ms=5_000,
    monitoring_interval_ms=5_000,
    offer_expiry_ms=120_000,
    offers_max=20,
    thresholds=Thresholds(cpu_min_milli=0),
    reserved_memory_bytes=0,
    quiet_ms=0,
    suspended_ms_max=10_000,
    allow_urgent=True,
    allow_no_preempt=True,
)


class Machine:
    """One machine."""

    def __init__(self, world: "World", number: int, node_id: NodeId, cores: int) -> None:
        self.world = world
        self.number = number
        self.id = node_id
        self.name = f"m{number}"
        self.inventory = Inventory(
            cores=tuple((core, 0) for core in range(cores)),
            cpu_milli=cores * 1_000,
            memory_bytes=cores * 4 * GIB,
            storage_bytes=100 * GIB,
        )
        self.is_member = True
        self.is_hidden = False
        self.is_laptop = False
        self.drift_ppm = 0
        self._skipped_us = 0
        seed = world.mood.seed
        self._rng = random.Random(f"{seed}/{self.name}")
        self.disk = Disk()
        self.desk = Desk(self.inventory, random.Random(f"{seed}/{self.name}/desk"))
        self.keeper = Keeper(
            random.Random(f"{seed}/{self.name}/keeper"),
            world.life,
            began=lambda truth: world.began(self, truth),
            codes=world.codes,
        )
        self.node: Node | None = None
        self.life = 0  # Counts starts; an effect of an earlier one is void.
        self.is_gone = False  # For good.
        self.is_paused = False  # The whole machine sleeps.
        self.is_frozen = False  # Only the agent is stopped.
        self.is_view_old = False
        self._paused_us = 0
        self.woke_us = -SECOND_US  # When it last woke up.
        self._booted_us = 0  # When it last got power, by its own clock.
        self._waiting: deque[tuple[NodeId, JobMessage]] = deque(maxlen=BUFFERED)
        self._inbox: deque[tuple[NodeId, JobMessage]] = deque()
        self._is_listening = False
        self._busy: set[Lane] = set()  # Whose last step is not carried out yet.
        self._unsaved: list[tuple[Ready, list[Change], Callable[[], None] | None]] = []
        self._is_syncing = False
        self._due_us: int | None = None  # When the keeper is next looked at.

    def __repr__(self) -> str:
        return self.name

    @property
    def is_up(self) -> bool:
        """Whether there is an agent, awake or not."""
        return self.node is not None

    @property
    def is_awake(self) -> bool:
        """Whether it would answer."""
        return self.node is not None and not self.is_paused and not self.is_frozen

    @property
    def kernel(self) -> Node:
        """Of a machine that is up."""
        assert self.node is not None, f"{self.name} is down"
        return self.node

    # Clocks

    def boot_us(self) -> int:
        """Its clock since it got power, which goes on while it sleeps."""
        return self._local_us(self.world.timeline.now_us) - self._booted_us

    def now_ms(self) -> int:
        """Its clock that never goes back, not even when it loses power."""
        return self.ms_of(self.world.timeline.now_us)

    def ms_of(self, true_us: int) -> int:
        """What it will call that moment."""
        return START_MS + self._local_us(true_us) // 1_000

    def _local_us(self, true_us: int) -> int:
        return true_us + true_us * self.drift_ppm // 1_000_000 + self._skipped_us

    def skip(self, long_ms: int) -> None:
        """So much time passes, in which nothing happens; what runs takes as much longer."""
        self._skipped_us += long_ms * 1_000
        self.keeper.slept(long_ms)

    # Lives

    def start(self) -> None:
        """A new agent, from what is on disk."""
        assert self.node is None, f"{self.name} is up already"
        self.life += 1
        self.disk.open()
        rng = random.Random(f"{self.world.mood.seed}/{self.name}/{self.life}")
        node = Node(
            name=self.name,
            ledger=Ledger(self.inventory),
            paths=_PATHS,
            new_lease_id=lambda: f"{rng.getrandbits(128):032x}",
            rules=Rules(terms=_TERMS),
        )
        across = node.join(self.id, senses=Senses(self.boot_us, rng.randrange))
        across.guarding.shelf.read = lambda job: self.disk.held.get(job)  # noqa: PLW0108
        self.disk.restore(node, self.now_ms())
        self.node = node
        self.world.verdicts.born(self)
        self.world.is_back(self)
        life = self.life
        self._meet()
        self._sample(life)
        self.world.timeline.after(rng.randrange(VIEW_US), self._first_look, life)
        self.world.timeline.after(rng.randrange(LOOK_US), self._beat, life, rng.randrange(9))
        self.world.timeline.after(rng.randrange(TICK_US), self._tick, life)
        self.world.timeline.after(rng.randrange(PUBLISH_US), self._publish, life)

    def crash(self) -> None:
        """The agent is gone, and with it whatever was not saved. The keeper goes on."""
        self.node = None
        self.life += 1
        self.is_frozen = False
        self._waiting.clear()
        self._inbox.clear()
        self._busy.clear()
        self._unsaved.clear()
        self._is_syncing = False
        self.world.verdicts.reconsider()
        for checker in self.world.checkers:
            checker.crashed(self.world, self)

    def power_off(self) -> None:
        """The machine is gone, and with it whatever ran there."""
        if self.is_paused:
            self._end_pause()
        self.keeper.power_off(self.now_ms())
        self._booted_us = self._local_us(self.world.timeline.now_us)
        self.crash()

    def pause(self) -> None:
        """The lid is closed."""
        self.is_paused = True
        self._paused_us = self.world.timeline.now_us
        self.world.verdicts.reconsider()

    def _end_pause(self) -> None:
        self.is_paused = False
        self.keeper.slept((self.world.timeline.now_us - self._paused_us) // 1_000)

    def wake(self) -> None:
        """The lid is opened: the clock went on, and processes go on where they were."""
        if not self.is_paused:
            return
        self._end_pause()
        self.woke_us = self.world.timeline.now_us
        for checker in self.world.checkers:
            checker.woke(self.world, self)
        self.world.timeline.after(self._rng.randrange(LOOK_US), self._look)
        self._go_on()

    def awake_since(self, long_us: int) -> int:
        """So long ago, of the time in which it was awake."""
        now_us = self.world.timeline.now_us
        if now_us - self.woke_us >= long_us:
            return now_us - long_us
        return self._paused_us - (long_us - (now_us - self.woke_us))

    def freeze(self) -> None:
        """The agent is stopped, as by SIGSTOP."""
        self.is_frozen = True
        self.world.verdicts.reconsider()

    def thaw(self) -> None:
        """It goes on, and hears what came meanwhile."""
        if self.is_frozen:
            self.is_frozen = False
            self._go_on()

    def _go_on(self) -> None:
        self._plan_keeper()
        if self.node is None:
            return
        self.world.verdicts.woke(self)
        life = self.life
        if self._rng.random() < 0.5:
            self._in_lane("look", lambda: Beat(now_ms=self.now_ms()))
        waiting = list(self._waiting)
        self._waiting.clear()
        for peer, message in waiting:
            if self.life == life:
                self.told(peer, message)
        if self.life == life:
            self._deliver(life)
            self._sync()

    # What the clock brings

    def _beat(self, life: int, looks: int) -> None:
        """Twice a second; each time that it looks if a lease of an at-most-once job may lapse."""
        if self.life != life:
            return
        across = self.kernel.across
        if looks % BEAT_LOOKS == 0 or (across is not None and across.once.is_busy):
            self._in_lane("look", lambda: Beat(now_ms=self.now_ms()))
        self.world.timeline.after(LOOK_US, self._beat, life, looks + 1)

    def _tick(self, life: int) -> None:
        if self.life != life:
            return
        self._in_lane("tick", lambda: Tick(now_ms=self.now_ms()))
        self.world.timeline.after(TICK_US, self._tick, life)

    def _sample(self, life: int) -> None:
        if self.life != life:
            return
        if self.is_awake:
            sample = self.desk.measured(self.now_ms())
            self.step(Sampled(now_ms=self.now_ms(), sample=sample))
        self.world.timeline.after(SAMPLE_US, self._sample, life)

    def _publish(self, life: int) -> None:
        if self.life != life:
            return
        if self.is_awake:
            self.world.verdicts.publish(self)
            if self.is_view_old:
                self.look_around()
        self.world.timeline.after(PUBLISH_US, self._publish, life)

    def _first_look(self, life: int) -> None:
        if self.life == life:
            self.look_around()

    def look_around(self) -> None:
        """The kernel is told who is there."""
        self.is_view_old = "look" in self._busy
        self._in_lane("look", self._view)

    def _view(self) -> View:
        peers = {peer.id: peer for peer in self.world.verdicts.view(self)}
        return View(now_ms=self.now_ms(), peers=peers, own=described(self))

    # Events

    def told(self, peer: NodeId, message: JobMessage) -> None:
        """Another machine says something; one thing is heard after the other."""
        if self.is_awake:
            self._inbox.append((peer, message))
            self._listen()
        elif self.node is not None:
            self._waiting.append((peer, message))

    def _listen(self) -> None:
        if self._is_listening:
            return  # Further up: a disk that was full leaves hundreds.
        self._is_listening = True
        while self._inbox and self.is_awake and "told" not in self._busy:
            self._hear(*self._inbox.popleft())
        self._is_listening = False

    def _hear(self, peer: NodeId, message: JobMessage) -> None:
        recalled: tuple[Job, ...] = ()
        if (across := self.kernel.across) is not None:
            across.find_disk(is_full=self.disk.is_full)
            recalled = self.disk.history(across.forgotten(peer, message))
        word = Told(now_ms=self.now_ms(), peer=peer, message=message, recalled=recalled)
        self._in_lane("told", lambda: word)

    def recall(self, wanted: Iterable[JobId]) -> None:
        """New jobs come after these: an agent looks up what it has forgotten."""
        if self.node is not None:
            known = self.node.coordinator.jobs
            for job in self.disk.history(job for job in wanted if job not in known):
                recall(self.node.coordinator, job)

    def _in_lane(self, lane: Lane, event: Callable[[], NodeEvent]) -> bool:
        """What waits for the last of its kind to be carried out; whether it need not."""
        if lane in self._busy or not self.is_awake:
            return False
        self._busy.add(lane)
        self.step(event(), partial(self._next, lane, self.life))
        return True

    def _next(self, lane: Lane, life: int) -> None:
        """Something was carried out: the next of its kind may come."""
        if self.life != life:
            return
        self._busy.discard(lane)
        if lane == "told":
            self._listen()
        elif lane == "keeper":
            self._deliver(life)
        elif lane == "look" and self.is_view_old:
            self.look_around()

    def step(self, event: NodeEvent, then: Callable[[], None] | None = None) -> bool:
        """Tell the kernel; `then` once all that followed is durable. Whether there was a kernel."""
        node = self.node
        if node is None or self.is_paused or self.is_frozen:
            return False
        ready = node.step(event)
        for peer, message in ready.ask:
            self.world.network.send(self, peer, message)
        changes = changes_of(ready, node)
        if not changes:
            self._carry_out(ready, then)
            return True
        if not self._unsaved and not self._is_syncing:
            self._say_early(ready)
        self._unsaved.append((ready, changes, then))
        self._sync()
        return True

    def _say_early(self, ready: Ready) -> None:
        """Everything before this step is durable."""
        early = [one for one in ready.send if rests_on_earlier_steps(one[1])]
        ready.send = [one for one in ready.send if one not in early]
        for peer, message in early:
            self.world.network.send(self, peer, message)

    def _sync(self) -> None:
        """Everything that came up to now is one transaction."""
        if self._is_syncing or not self._unsaved or not self.is_awake or self.disk.is_full:
            return
        batch, self._unsaved = self._unsaved, []
        self._is_syncing = True
        sync_us = self.world.mood.sync_us
        if sync_us and self.world.is_rough:
            wait_us = int(self._rng.random() * sync_us)
            self.world.timeline.after(wait_us, self._synced, self.life, batch)
        else:
            self._synced(self.life, batch)

    def _synced(
        self, life: int, batch: list[tuple[Ready, list[Change], Callable[[], None] | None]]
    ) -> None:
        if self.life != life:
            return
        if self.is_paused:
            self.world.timeline.after(LOOK_US, self._synced, life, batch)
            return
        if self.disk.is_full:  # It has become so: what is written then is as of then.
            node = self.kernel
            again = [(ready, changes_of(ready, node), then) for ready, _, then in batch]
            self._unsaved = again + self._unsaved
            self._is_syncing = False
            return
        changes = [change for _, some, _ in batch for change in some]
        if self.world.faults.dies_while_saving(self, changes):
            return
        self.disk.save(changes, self.now_ms())
        if self.world.faults.dies_after_saving(self):
            return
        self._is_syncing = False
        for ready, _, then in batch:
            if self.life != life:
                return
            if self.node is not None and self.node.across is not None:
                self.node.across.guarding.shelf.saved(ready.save_held)
            self._carry_out(ready, then)
        self._sync()

    def room_again(self) -> None:
        """The disk is no longer full."""
        if self.disk.is_full:
            self.disk.is_full = False
            if node := self.node:
                self._unsaved = [
                    (ready, changes_of(ready, node), then) for ready, _, then in self._unsaved
                ]
            self._sync()

    def _carry_out(self, ready: Ready, then: Callable[[], None] | None) -> None:
        now_ms, node = self.now_ms(), self.kernel
        for told in ready.tell:
            if isinstance(told, Run) and (job := node.coordinator.jobs.get(told.job)):
                origin = job.spec.origin
                self.keeper.calls(told.job, origin.job if origin else told.job)
            self.keeper.hear(told, now_ms)
        for peer, message in ready.send:
            self.world.network.send(self, peer, message)
        self.world.happened(self, ready)
        if ready.tell:
            self._plan_keeper()
            self._plan_delivery()
        if then is not None:
            then()

    # The keeper

    def _plan_keeper(self) -> None:
        """Look at the keeper when the next process ends, or a deadline may have passed."""
        due_ms = self.keeper.next_ms()
        now_us = self.world.timeline.now_us
        waits_us = [(due_ms - self.now_ms()) * 1_000] if due_ms is not None else []
        waits_us += [LOOK_US] if self.keeper.has_deadlines else []
        if not waits_us:
            return
        due_us = now_us + max(min(waits_us), 1_000)
        if self._due_us is None or self._due_us <= now_us or due_us < self._due_us:
            self._due_us = due_us
            self.world.timeline.at(due_us, self._look)

    def _look(self) -> None:
        if self.is_paused:
            return
        self._due_us = None
        self.keeper.look(self.boot_us(), self.now_ms())
        self.keeper.pass_to(self.now_ms())
        self._plan_delivery()
        self._plan_keeper()

    def _plan_delivery(self) -> None:
        journal = self.keeper.journal
        if self.node is not None and journal and journal[-1].number > self.keeper.told:
            wait_us = int(self._rng.random() * 20_000)
            self.world.timeline.after(wait_us, self._deliver, self.life)

    def _deliver(self, life: int) -> None:
        """The agent hears what it has not heard yet."""
        if self.life != life or not self.is_awake or "keeper" in self._busy:
            return
        news = tuple(one for one in self.keeper.journal if one.number > self.keeper.told)
        if news:
            self.keeper.told = news[-1].number
            self._in_lane("keeper", lambda: Reports(now_ms=self.now_ms(), reports=news))

    def _meet(self) -> None:
        reports = tuple(self.keeper.journal)
        if reports:
            self.keeper.told = reports[-1].number
        self.step(Met(now_ms=self.now_ms(), hello=self.keeper.hello(), reports=reports))

    def keeper_dies(self) -> None:
        """And its processes with it; the agent follows, and the next keeper starts the next one."""
        self.keeper.die(self.now_ms())
        self.crash()
