"""The one thread of an Executor: sends what was submitted meanwhile, and tells the futures.

Lives here: waiting for submissions and answers at once, the agent's restarts, the end. Never here:
what is sent (`submissions`).
Invariant: every future that was submitted ends, also if nobody holds the Executor any more; then
the thread ends, and its workers with it. In a forked child there is no thread, and nothing is
touched.
"""

import atexit
import contextlib
import os
import select
import threading
import time
import weakref
from concurrent.futures import BrokenExecutor
from typing import Final

from distributed_grid.client import map_calls
from distributed_grid.client.blocking import ANSWER_S, Caller, Line
from distributed_grid.client.futures.submissions import Submissions, Submitted
from distributed_grid.client.map_pools import AWAY_S, SURVIVED, HeldPool, needs_pause
from distributed_grid.client.map_results import Pools
from distributed_grid.client.patience import RETRY_S
from distributed_grid.client.resting import rest
from distributed_grid.errors import GridError, NoAgent

_LIVING: Final["weakref.WeakSet[Feeder]"] = weakref.WeakSet()


class Feeder:
    """What an Executor and its thread share."""

    def __init__(self, caller: Caller, held: HeldPool[Line], calls: Submissions) -> None:
        self._caller, self._held, self._calls = caller, held, calls
        self._pid = os.getpid()
        # Also a finalizer takes it, in whatever thread, whatever that does.
        self._lock = threading.RLock()
        self._is_shut = self._is_resting = False
        self._thread: threading.Thread | None = None
        self._heard, self._told = -1, -1  # The ends of a pipe that wakes the thread.
        self._poll: Line | None = None  # The answer that is waited for.
        self._poll_after = self._poll_wait_ms = 0
        self._until_s = 0.0

    def add(self, submitted: Submitted) -> None:
        """Take a call; raises RuntimeError if there is nobody to take it."""
        self._refuse_forked()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._calls.broken is not None:
                raise self._calls.broken
            self._calls.queue.append(submitted)
            if self._is_resting:
                self._wake()
            elif self._thread is None:
                self._begin()

    def shut(self, *, cancel: bool = False, at_once: bool = False) -> None:
        """Take no more calls; those that are here are done first, or cancelled if not begun.

        `at_once`: they are not, and the workers end whatever they do.
        """
        if self._pid != os.getpid():
            return
        with self._lock:
            self._is_shut = True
            if at_once and self._calls.broken is None:
                self._calls.broken = BrokenExecutor("its workers were ended")
            dropped = list(self._calls.queue) if cancel else []
            if cancel:
                self._calls.queue.clear()
            self._wake()
        for future, *_ in dropped:
            if future.cancel():
                future.set_running_or_notify_cancel()
        if at_once and self._held.pool.is_open:
            with contextlib.suppress(GridError), Caller(self._caller.path) as caller:
                caller.run(map_calls.close(self._held.pool.id))  # The thread hears of it.

    def join(self) -> None:
        """Until all is done."""
        thread = self._thread
        is_own = self._pid == os.getpid() and thread is not threading.current_thread()
        if thread is not None and is_own:
            thread.join()

    def _refuse_forked(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError(
                f"this Executor belongs to process {self._pid}, which this one was forked from: "
                "make one of its own here"
            )

    def _begin(self) -> None:
        self._heard, self._told = os.pipe()
        self._thread = threading.Thread(target=self._run, name="grid-executor", daemon=True)
        _LIVING.add(self)
        self._thread.start()

    def _wake(self) -> None:
        if self._told >= 0 and self._is_resting:
            self._is_resting = False
            os.write(self._told, b"\0")

    # The thread

    def _run(self) -> None:
        calls = self._calls
        try:
            while self._has_work():
                if calls.broken is not None:
                    calls.fail(calls.broken)
                    continue
                try:
                    self._turn()
                except BaseException as error:  # noqa: BLE001  # No future waits for ever.
                    self._hang_up()
                    self._held.pool.is_open = False
                    calls.fail(error)
        finally:
            self._hang_up()
            Pools(self._caller).end(self._held)
            self._caller.close()
            with self._lock:
                for end in (self._heard, self._told):
                    os.close(end)
                self._heard = self._told = -1

    def _has_work(self) -> bool:
        """Waits until there is something to do; False: there will be nothing any more."""
        while self._calls.is_idle and not self._calls.queue:
            with self._lock:
                if self._calls.queue:
                    break
                if self._is_shut:
                    return False
                self._is_resting = True
            select.select([self._heard], [], [])
            os.read(self._heard, 1)
            self._calls.rested(time.monotonic())
        return True

    def _turn(self) -> None:
        """Send what may be sent and hear what there is, over restarts of the agent."""
        calls, held = self._calls, self._held
        try:
            calls.gather(time.monotonic())
            if not held.pool.is_open and not calls.is_idle:
                self._hang_up()
                held.let_go()
                self._caller.run(calls.open())
                held.line = self._caller.opened(map_calls.Hold(held.pool.id))
            if calls.has_unsent and (self._poll is not None or calls.queue):
                self._send()
            elif not calls.is_idle:
                self._listen()
            self._until_s = 0.0
        except SURVIVED as error:
            self._hang_up()
            now_s = time.monotonic()
            self._until_s = self._until_s or now_s + AWAY_S
            if needs_pause(held, self._caller.path, error, is_late=now_s > self._until_s):
                rest(RETRY_S)

    def _send(self) -> None:
        """Tell calls, and hear what there is."""
        calls = self._calls
        fed = calls.fed(calls.to_send(), can_wait=False)
        news = self._caller.run(map_calls.feed(self._held.pool.id, fed))
        calls.hear(news, after=fed.after, now_s=time.monotonic())
        self._caller.run(calls.hire(news))

    def _listen(self) -> None:
        """Wait for outcomes, or for more calls while there is room for them."""
        calls = self._calls
        if self._poll is None:
            self._caller.run(calls.look_around())
            fed = calls.fed(calls.to_send(), can_wait=True)
            self._poll_after, self._poll_wait_ms = fed.after, fed.wait_ms
            self._poll = self._caller.asked(map_calls.feed_request(self._held.pool.id, fed))
        with self._lock:
            has_room = calls.has_room
            if calls.queue and has_room:
                return
            self._is_resting = has_room
        wait_s = ANSWER_S + self._poll_wait_ms / 1_000
        line = self._poll
        ready, _, _ = select.select([line.fileno(), self._heard], [], [], wait_s)
        with self._lock:
            if has_room and not self._is_resting:
                os.read(self._heard, 1)  # Written by who changed that.
            self._is_resting = False
        if line.fileno() in ready:
            self._poll = None
            news = map_calls.news_of(self._caller.heard(line))
            calls.hear(news, after=self._poll_after, now_s=time.monotonic())
            self._caller.run(calls.hire(news))
        elif not ready:
            raise NoAgent(self._caller.path, why=f"it did not answer within {wait_s:g} s")

    def _hang_up(self) -> None:
        if self._poll is not None:
            self._poll.close()
            self._poll = None


@atexit.register
def _finish() -> None:
    """At the end of the program all that was submitted is done, as in the standard library."""
    for feeder in list(_LIVING):
        feeder.shut()
        feeder.join()
