"""One connection: two ordered streams that slow down, fall silent and break.

Lives here: queues, both ends' view of it. Never here: who may connect (`network`).
Invariant: in each direction messages arrive in order and once, or not at all from some point on.
"""

from collections import deque
from typing import TYPE_CHECKING

from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.mesh import (
    MESSAGE_BYTES_MAX,
    Delta,
    DeltaTaken,
    Hello,
    MeshMessage,
    decode,
    encode,
)

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host
    from distributed_grid.sim.mesh.network import Network

_LOOK_AGAIN_US = 200_000
_DELTAS_MAX = 3  # Unanswered: one, and those before which the other end said that it has all.


class Connection:
    """Between the one that dialled and the one that answered."""

    def __init__(self, network: "Network", source: "Host", target: "Host") -> None:
        self.ends = (source, target)
        self.lives = (source.life, target.life)
        self.is_closed = False
        self._network = network
        self._queues: tuple[deque[tuple[int, bytes]], ...] = (deque(), deque())
        self._is_moving = [False, False]
        self._unanswered: tuple[set[int], set[int]] = (set(), set())  # Deltas, by number.
        self._last_words: list[str | None] = [None, None]
        self._silent_us: int | None = None  # Since when nothing gets through, one way or both.
        self.good_since_us: int | None = None  # Since when both ends hold it, and it works.

    def other(self, host: "Host") -> "Host":
        """The far end."""
        return self.ends[1] if host is self.ends[0] else self.ends[0]

    def both_live(self) -> bool:
        """Whether both machines are still those that connected."""
        return self.ends[0].life == self.lives[0] and self.ends[1].life == self.lives[1]

    def is_whole_between(self, one: "Host", other: "Host") -> bool:
        """Whether both ends hold it, and are who they were."""
        return (
            not self.is_closed
            and self.both_live()
            and one.links.get(other.id) is self
            and other.links.get(one.id) is self
        )

    # Life

    def open_at(self, host: "Host", hello: Hello) -> None:
        """This end is up instead of any earlier one. Of two that cross both ends keep the same."""
        peer = self.other(host)
        if self.is_closed or not self.both_live():
            self.close("the other end is gone")
            return
        former = host.links.get(peer.id)
        if former is not None and former is not self:
            is_crossing = former.other(host) is peer and former.both_live() and not former.is_closed
            if is_crossing and former.ends[0].id < self.ends[0].id:
                self.close("there is another")
                return
            former.close("replaced")
        host.link_up(self, peer.id, hello)
        self.reconsider()

    def close(self, why: str, *, late_us: int = 0) -> None:
        """Both ends lose it, each when it notices."""
        if self.is_closed:
            return
        self.is_closed = True
        self.good_since_us = None
        for host in self.ends:
            if late_us:
                wait_us = int(self._network.rng.random() * late_us)
                self._network.timeline.after(wait_us, host.link_down, self, why)
            else:
                host.link_down(self, why)

    def hang_up(self, host: "Host", why: str) -> None:
        """This end is done; the other one reads what was sent before, and then learns it."""
        host.link_down(self, why)
        way = 0 if host is self.ends[0] else 1
        self._last_words[way] = why
        self.good_since_us = None
        if not self._is_moving[way]:
            self._network.timeline.after(self._network.resent_us(), self.close, why)

    def reconsider(self) -> bool:
        """Silent or not? False if it is closed and can be forgotten."""
        if self.is_closed:
            return False
        now_us = self._network.timeline.now_us
        one, other = self.ends
        is_silent = (
            not self.both_live()
            or one.is_paused
            or other.is_paused
            or not self._network.is_open(one.address, other.address)
            or not self._network.is_open(other.address, one.address)
        )
        if is_silent or not self.is_whole_between(one, other):
            self.good_since_us = None
        elif self.good_since_us is None:
            self.good_since_us = now_us
        if not is_silent:
            self._silent_us = None
        elif self._silent_us is None:
            self._silent_us = now_us
            self._network.timeline.after(self._network.idle_us, self._give_up, self._silent_us)
        return True

    def _give_up(self, since_us: int) -> None:
        if self._silent_us == since_us:
            self.close("silent", late_us=SECOND_US)

    # Messages

    def send(self, source: "Host", message: MeshMessage) -> int:
        """Put it into the stream; its size."""
        if self.is_closed:
            return 0
        body = encode(message)
        assert len(body) <= MESSAGE_BYTES_MAX, f"{type(message).__name__} of {len(body)} bytes"
        way = 0 if source is self.ends[0] else 1
        self._count(way, message)
        at_us = self._network.timeline.now_us + self._network.resent_us()
        self._queues[way].append((at_us, body))
        if not self._is_moving[way]:
            self._is_moving[way] = True
            self._network.timeline.at(at_us, self._move, way)
        return len(body)

    def _count(self, way: int, message: MeshMessage) -> None:
        """A slow neighbour slows only itself: not much waits for it."""
        if isinstance(message, DeltaTaken):
            self._unanswered[1 - way].discard(message.number)
        elif isinstance(message, Delta) and message.number:
            self._unanswered[way].add(message.number)
            count = len(self._unanswered[way])
            assert count <= _DELTAS_MAX, f"{self.ends[way]} sends {count} deltas unanswered"

    def _move(self, way: int) -> None:
        queue, timeline = self._queues[way], self._network.timeline
        source, target = self.ends[way], self.ends[1 - way]
        if self.is_closed or not self.both_live():
            queue.clear()
            self._is_moving[way] = False
            return
        if not self._network.is_open(source.address, target.address) or target.is_paused:
            timeline.after(_LOOK_AGAIN_US, self._move, way)
            return
        if target.links.get(source.id) is not self:
            if self._last_words[1 - way] is None:  # It is not up there yet.
                timeline.after(_LOOK_AGAIN_US // 20, self._move, way)
            return
        _, body = queue.popleft()
        target.told(source.id, decode(body))
        if queue:
            timeline.at(max(queue[0][0], timeline.now_us), self._move, way)
            return
        self._is_moving[way] = False
        if (why := self._last_words[way]) is not None:
            self.close(why)
