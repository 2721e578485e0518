"""The keeper: the parent of all jobs of a node, and of its agent.

    python -m distributed_grid.edges.runner.keeper --data-dir D -- AGENT ARGV…

Lives here: the loop, and who is told what. Never here: decisions about jobs (the agent's), asyncio,
anything heavy: this process lives as long as the jobs do, and must not grow or fail.
Invariant: one per data directory; nothing that an agent, a job or a full disk does ends it.
"""

import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from distributed_grid.edges.runner import JOURNAL_FILE, REFUSED_CODE, orphans, reap, watchdog
from distributed_grid.edges.runner.agent_process import AgentProcess
from distributed_grid.edges.runner.attempts import LAPSED, Attempt, Report
from distributed_grid.edges.runner.cgroups import CgroupPool
from distributed_grid.edges.runner.containment import remove_leftovers
from distributed_grid.edges.runner.deadlines import LOOK_NS as DEADLINE_LOOK_NS
from distributed_grid.edges.runner.deadlines import Deadlines, boot_us
from distributed_grid.edges.runner.door import Door
from distributed_grid.edges.runner.foresight import Foresight
from distributed_grid.edges.runner.journal import Journal
from distributed_grid.edges.runner.output import bring_home
from distributed_grid.edges.runner.reports import Reports
from distributed_grid.edges.runner.scratch import Scratch, removing
from distributed_grid.edges.runner.spare import Spare
from distributed_grid.edges.runner.stance import Stance
from distributed_grid.edges.runner.timetable import Timetable
from distributed_grid.edges.runner.turns import Turns, did_not_start
from distributed_grid.wire.keeper import (
    NOT_STARTED,
    Acknowledge,
    Adopt,
    Adopted,
    Deadline,
    Hello,
    How,
    Preempt,
    Quit,
    Resume,
    Run,
    Stop,
    StopIndex,
    Suspend,
    ToKeeper,
    Withdraw,
)

ATTEMPTS_MAX: Final = 10_000  # Far more than processes make sense on a machine; bounds our memory.
LOOK_NS: Final = 200_000_000  # How often output and memory of running jobs are looked at.
PEAKS_EVERY: Final = 5  # Looks between two that sum up memory where nothing depends on it.
SEND_NS: Final = 20_000_000  # Reports from the middle of a chunk wait this long for company.
LEAVE_NS: Final = 10_000_000_000  # For an agent that said it goes, or is told to.
FAILURES_MAX: Final = 100  # Turns in a row that went wrong: then nothing works any more.
GRACE_MS_MAX: Final = 10_000  # When the keeper itself is told to end.


class Keeper:
    """One loop over signals, the agent's line, callers at the door, and time."""

    def __init__(
        self, data_dir: str, agent: AgentProcess, *, keeper_id: str, boot_id: str, cgroup_root: str
    ) -> None:
        self.pool = CgroupPool(keeper_id, root=cgroup_root)
        self.stance = Stance(self.pool, Spare(f"{data_dir}/spare"))
        self.reports = Reports(
            Journal(f"{data_dir}/{JOURNAL_FILE}"),
            keeper_id=keeper_id,
            boot_id=boot_id,
            groups=self.pool.name,
            rescue=bring_home,
        )
        self.stance.spare.clear()
        self.agent = agent
        self.door = Door(data_dir)
        self.attempts: dict[str, Attempt] = {}
        self.turns = Turns()
        self.by_pid: dict[int, Attempt] = {}
        self.removers: set[int] = set()
        self.is_leaving = False  # The agent said goodbye, or we were told to end.
        self.leave_at_ns = 0
        self._heard: deque[ToKeeper] = deque()  # Not obeyed yet.
        self._timetable = Timetable()
        self._deadlines = Deadlines()
        self._foresight = Foresight(self.stance.cores_count)
        self._over: list[Attempt] = []
        self._is_reaping = False  # More children may have ended than one turn takes.
        self._look_at_ns = 0
        self._looks = 0
        self._is_blocked = False  # The agent does not read as fast as we write.
        self._send_at_ns = 0
        self._identity = (keeper_id, boot_id)
        self._poll = select.epoll()
        self._wakeup, self._signals = socket.socketpair()
        self._told_to_end = False
        predecessor = self.reports.predecessor
        self.pool.remove_leftovers(predecessor.groups if predecessor else "")
        for path in self.reports.leftover_scratch:
            self._remove_scratch(Scratch(path))
        self.removers.update(remove_leftovers(self.reports.leftover_containers))

    # --- The loop ---------------------------------------------------------------------------------

    def run(self) -> int:
        """Until told to end, and everything has; the exit code."""
        self._listen_to_signals()
        self._poll.register(self._wakeup, select.EPOLLIN)
        self._poll.register(self.door.listener, select.EPOLLIN)
        failures = 0
        while not self._is_done():
            try:
                self._turn()
                failures = 0
            except Exception:
                # A mistake of ours. Every job would end with us: go on with what still works.
                failures += 1
                sys.excepthook(*sys.exc_info())
                if failures >= FAILURES_MAX:
                    raise
        self._tell()
        while self._over:
            self._put_away(self._over.pop())
        self._close()
        return 0

    def _turn(self) -> None:
        for descriptor, events in self._poll.poll(self._wait_s()):
            self._handle(descriptor, events)
        # What is taken from here stays taken when something goes wrong, and the rest stays here.
        while self._heard:
            self._obey(self._heard.popleft())
        if self._is_reaping:
            self._reap()
        self._keep_time()
        self._tell()
        while self._over:
            self._put_away(self._over.pop())
        self.stance.rest(self._foresight.cores(time.monotonic_ns(), len(self.by_pid)))

    def _handle(self, descriptor: int, events: int) -> None:
        if descriptor == self._wakeup.fileno():
            self._wakeup.recv(4_096)
            self._is_reaping = True
        elif self.agent.line and descriptor == self.agent.line.fileno():
            if events & ~select.EPOLLOUT:
                self._hear()
        elif descriptor == self.door.listener.fileno():
            caller = self.door.open()
            if caller is not None:
                self._poll.register(caller, select.EPOLLIN)
        elif descriptor in self.door.callers:
            self.door.answer(descriptor, self._adopt)

    def _listen_to_signals(self) -> None:
        self._wakeup.setblocking(False)
        self._signals.setblocking(False)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(ignored, signal.SIG_IGN)

    def _on_sigterm(self, *_: object) -> None:
        self._told_to_end = True

    def _is_done(self) -> bool:
        return self.is_leaving and not (self.attempts or self.turns or self.agent.pid)

    def _wait_s(self) -> float:
        if self._is_reaping or self._heard or self.turns.is_free:
            return 0
        moments = [self.agent.start_at_ns, self.agent.kill_at_ns, self._timetable.next_ns]
        if self.reports.is_waiting and self.agent.line and not self._is_blocked:
            moments.append(self._send_at_ns)
        moments.append(self._look_at_ns if self.attempts else self.leave_at_ns)
        soonest = min((moment for moment in moments if moment), default=0)
        wait_ns = max(soonest - time.monotonic_ns(), 0) if soonest else -1
        if self._deadlines:
            wait_ns = DEADLINE_LOOK_NS if wait_ns < 0 else min(wait_ns, DEADLINE_LOOK_NS)
        return wait_ns / 1e9 if wait_ns >= 0 else -1

    def _keep_time(self) -> None:
        if self._told_to_end:
            self._told_to_end = False
            self._quit(stop_jobs=True)
        for name in self._deadlines.take_due():
            self._lapse(name)
        now_ns = time.monotonic_ns()
        for attempt in self._timetable.due(now_ns):
            self._after(attempt, attempt.fall_due(self._left_by(attempt)))
        while (run := self.turns.take()) is not None:
            self._begin(run)
        if self.attempts and now_ns >= self._look_at_ns:
            self._look_at_ns = now_ns + LOOK_NS
            self._look(now_ns)
        if self.agent.start_at_ns and now_ns >= self.agent.start_at_ns:
            self._start_agent()
        if self.agent.kill_at_ns and now_ns >= self.agent.kill_at_ns:
            self.agent.end()
        if self.leave_at_ns and not self.attempts:
            self._leave()

    # --- The agent --------------------------------------------------------------------------------

    def _start_agent(self) -> None:
        self.stance.go_home()
        keeper_id, boot_id = self._identity
        hello = Hello(
            keeper_id=keeper_id,
            boot_id=boot_id,
            pid=os.getpid(),
            limits=self.stance.mechanisms(),
            running=(*self.attempts, *self.turns.waiting),
            agent_restarts=self.agent.restarts,
            unacknowledged=self.reports.unacknowledged,
            queued=self.turns.waiting,
            suspended=tuple(n for n, one in self.attempts.items() if one.suspension.is_on),
            began={n: one.since_ms for n, one in self.attempts.items() if one.since_ms},
            deadlines=dict(self._deadlines.until_us),
        )
        line = self.agent.start(hello)
        if line:
            self.reports.repeat()
            self._poll.register(line, select.EPOLLIN)
            self._is_blocked = False

    def _hear(self) -> None:
        messages = self.agent.read()
        if messages is None:
            self.agent.hang_up()  # At its end, or junk: this connection is over.
            return
        self._heard += messages

    def _obey(self, message: ToKeeper) -> None:
        match message:
            case Run():
                self._run(message)
            case Stop() | StopIndex() | Preempt() | Withdraw() if message.attempt in self.turns:
                self._keep(self.turns.obey(message))
            case Stop() | StopIndex() | Preempt() | Suspend() | Resume():
                if message.attempt in self.attempts:  # Else it is over: its report is on the way.
                    attempt = self.attempts[message.attempt]
                    self._after(attempt, _change(attempt, message))
            case Deadline():
                self._move_deadline(message)
            case Acknowledge():
                self.reports.acknowledge(message.upto)
            case Quit():
                self._quit(stop_jobs=message.stop_jobs)
            case _:
                pass  # Who has started cannot be withdrawn.

    def _adopt(self, wish: Adopt) -> Adopted:
        self._reap()  # The last agent may be gone, and its end not looked at yet.
        if self.agent.pid or not self.is_leaving:
            return Adopted(
                keeper_pid=os.getpid(), agent_pid=self.agent.pid, refusal="an agent runs already"
            )
        self.is_leaving, self.leave_at_ns = False, 0
        self.agent.adopt(wish.argv, wish.env, wish.cwd)
        self._start_agent()
        refusal = "" if self.agent.pid else NOT_STARTED
        if refusal:
            self._quit(stop_jobs=False)
        return Adopted(keeper_pid=os.getpid(), agent_pid=self.agent.pid, refusal=refusal)

    def _quit(self, *, stop_jobs: bool) -> None:
        self.is_leaving = True
        self.agent.is_wanted, self.agent.start_at_ns = False, 0
        self.leave_at_ns = time.monotonic_ns() + LEAVE_NS
        if self.agent.pid and not stop_jobs:
            self.agent.kill_at_ns = self.leave_at_ns
        if stop_jobs:
            for name in self.turns.waiting:
                self._keep(self.turns.obey(Stop(attempt=name)))
            for attempt in list(self.attempts.values()):
                grace_ms = min(attempt.run.grace_ms, GRACE_MS_MAX)
                self._after(attempt, attempt.stop(signal.SIGTERM, grace_ms))

    def _leave(self) -> None:
        """No job is left: the agent gets its last reports, the end of the line, then the signal."""
        self.leave_at_ns = 0
        if self.agent.line and not self._tell(is_forced=True):
            self.agent.hang_up()
        if self.agent.pid:
            self.agent.kill_at_ns = time.monotonic_ns() + LEAVE_NS

    def _tell(self, *, is_forced: bool = False) -> bool:
        """Write the journal, then send; whether something waits to be sent."""
        self.reports.flush()
        line = self.agent.line
        now_ns = time.monotonic_ns()
        if line is None:
            return False
        if (
            not (self.reports.is_urgent or self._is_blocked or is_forced)
            and now_ns < self._send_at_ns
        ):
            return True
        self._send_at_ns = now_ns + SEND_NS
        is_blocked = False
        while not is_blocked:
            data = self.reports.take(self.agent.room()) if self.agent.room() > 0 else b""
            is_blocked = self.agent.write(data)
            if not data:
                break
        if is_blocked != self._is_blocked:
            self._is_blocked = is_blocked
            self._poll.modify(line, select.EPOLLIN | (select.EPOLLOUT if is_blocked else 0))
        return is_blocked

    # --- Jobs -------------------------------------------------------------------------------------

    def _run(self, run: Run) -> None:
        if run.attempt in self.attempts or run.attempt in self.turns:
            return
        if len(self.attempts) + len(self.turns) >= ATTEMPTS_MAX or self.is_leaving:
            full = f"{ATTEMPTS_MAX} attempts run or wait already"
            self._refuse(run, "stopped", "the keeper is leaving" if self.is_leaving else full)
        elif run.until_boot_us and boot_us() >= run.until_boot_us:
            self._refuse(run, "lost", LAPSED)  # Everybody slept between its lease and this.
        else:
            if run.until_boot_us:
                self._deadlines.set(run.attempt, run.until_boot_us)
            if self.turns.join(run):
                self._begin(run)
            else:
                self.reports.wait(run)

    def _move_deadline(self, message: Deadline) -> None:
        if message.attempt in self.attempts or message.attempt in self.turns:
            self._deadlines.set(message.attempt, message.until_boot_us)

    def _lapse(self, name: str) -> None:
        if name in self.turns:
            self._keep(self.turns.obey(Withdraw(attempt=name)))
        elif name in self.attempts:
            self._after(self.attempts[name], self.attempts[name].lapse())

    def _begin(self, run: Run) -> None:
        if not self.attempts:
            self._look_at_ns = time.monotonic_ns() + LOOK_NS
        try:
            lent = self.stance.spare.lend(run)
            if not self.reports.begin(run, lent):
                self.stance.spare.take_back(lent)
                lent = ()
            attempt = Attempt(run, self.stance, self._left_by, lent)
            self.attempts[run.attempt] = attempt
            self._after(attempt, [])
        except Exception as error:
            # A mistake of ours: an attempt of which nobody tells the end would wait for ever.
            begun = self.attempts.get(run.attempt)
            if begun is None or not begun.pid:
                self.attempts.pop(run.attempt, None)
                self._over += [begun] if begun else []
                self.turns.over(run)
                self._refuse(run, "failed", f"a bug of the keeper: {type(error).__name__}: {error}")
            else:
                self.by_pid[begun.pid] = begun
            raise

    def _refuse(self, run: Run, how: How, why: str) -> None:
        self._keep([did_not_start(run.attempt, how=how, note=why)])

    def _keep(self, reports: Iterable[Report], *, is_urgent: bool = True) -> None:
        for report in reports:
            self.reports.add(report, is_urgent=is_urgent)

    def _after(self, attempt: Attempt, reports: list[Report]) -> None:
        """Something happened to an attempt: go on with it, and keep its reports."""
        if attempt.can_start():
            reports = [*reports, *attempt.start_next()]
            if attempt.pid:
                self.by_pid[attempt.pid] = attempt
                if attempt.pending or self.turns.is_awaited(attempt.run):
                    self._foresight.started(attempt)
        if attempt.beside.pid:
            self.by_pid[attempt.beside.pid] = attempt
        if attempt.container and attempt.container.remover:
            self.by_pid[attempt.container.remover] = attempt
        # While others stand behind it, the agent has nothing to decide.
        self._keep(reports, is_urgent=not self.turns.is_awaited(attempt.run))
        if attempt.due_ns:
            self._timetable.add(attempt, self.attempts.values())
        if attempt.is_over and attempt.run.attempt in self.attempts:
            del self.attempts[attempt.run.attempt]
            self._deadlines.forget(attempt.run.attempt)
            self._over.append(attempt)  # Put away once its end is told: somebody waits for that.
            self.turns.over(attempt.run)

    def _put_away(self, attempt: Attempt) -> None:
        # Whoever shares its lease works in the same directory.
        remover = attempt.close(keep_scratch=self.turns.is_taken(attempt.run))
        if remover:
            self.removers.add(remover)
        if not self.attempts:
            self.stance.go_home()

    def _reap(self) -> None:
        count = 0
        for gone in reap.reap():
            count += 1
            attempt = self.by_pid.pop(gone.pid, None)
            if attempt:
                self._after(attempt, attempt.main_ended(gone, self._left_by(attempt)))
            elif gone.pid == self.agent.pid:
                self.agent.hang_up()
                self.agent.went()
                if gone.code == REFUSED_CODE and self.agent.restarts == 1 and not self.attempts:
                    self._quit(stop_jobs=False)  # Nobody was ever served, and nobody will be.
            else:
                self.removers.discard(gone.pid)
                removing.discard(gone.pid)
        # No signal comes for those that are left: the next turn goes on with them.
        self._is_reaping = count == reap.REAPED_PER_TURN_MAX

    def _left_by(self, attempt: Attempt) -> list[int]:
        """Orphans of an attempt, where no group knows its members."""
        if attempt.group:
            return []
        strangers = orphans.strangers({self.agent.pid, *self.by_pid, *self.removers, *removing})
        if attempt.container:
            return orphans.monitors(attempt.container.name, strangers)
        others = [other for other in self.by_pid.values() if other is not attempt]
        return orphans.of_family(attempt, strangers, others) if strangers else []

    def _look(self, now_ns: int) -> None:
        self._looks += 1
        by_group = "memory" in self.pool.enforces
        for attempt in dict.fromkeys(self.by_pid.values()):  # With a command beside it: once.
            if now_ns - attempt.started_ns < LOOK_NS:
                continue
            attempt.look()
            if attempt.run.limits.memory_bytes or self._looks % PEAKS_EVERY == 0:
                left = self._left_by(attempt)
                watchdog.look(attempt, left, is_limited_by_group=by_group)

    def _remove_scratch(self, scratch: Scratch) -> None:
        remover = scratch.remove()
        if remover:
            self.removers.add(remover)

    def _close(self) -> None:
        self.door.close()
        self.pool.remove()
        self.stance.spare.clear()


def _change(attempt: Attempt, wish: Stop | StopIndex | Preempt | Suspend | Resume) -> list[Report]:
    match wish:
        case Stop():
            return attempt.stop(wish.signal, wish.grace_ms)
        case StopIndex():
            return attempt.skip(wish.index)
        case Preempt():
            return attempt.preempt(wish)
        case Suspend():
            attempt.suspend()
        case Resume():
            attempt.resume()
    return []


def main(arguments: list[str]) -> int:
    """As a program: see the top of this file."""
    from distributed_grid.edges.runner import keeper_start

    return keeper_start.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
