"""What is better off elsewhere: work on a node that is drained, weak, or in the way of others.

Lives here: which of this node's work leaves, when, and what does not wait here meanwhile. Never
here: finding a place, and a better line to wait in (`asking`), signals (`kernel.giving_way`).
Invariant: nobody is moved in vain: another node could run it. Nobody is moved twice within a
cooldown, and nobody comes back at once to where it left.
"""

from collections.abc import Callable
from typing import Final

from distributed_grid.kernel.across.asking import Asking
from distributed_grid.kernel.across.wish import ANSWER_MS
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.giving_way import Tenant
from distributed_grid.kernel.launching import is_checkpointable
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.preemption import plan
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lending import Sample

MOVE_MS: Final = 60_000  # Between two moves of running work, and of one job.
MOVED_MS: Final = 30_000  # So long a job does not wait again where it left.
STUCK_MS: Final = 2_000  # Whoever waits for less may be helped by the next that ends.
COOLER_CENTI: Final = 500  # Five degrees below the limit it has cooled down; else it would flicker.
YOUNG_MS: Final = 60_000  # Whoever has run for less loses little by starting again elsewhere.
MOVED_MAX: Final = 10_000  # Jobs that were moved lately.
POWER: Final = PowerPolicy()
_WEAK: Final = ("battery_min_percent", "temperature_max")  # Of the owner's terms of lending.

Which = Callable[[Tenant], bool]


class Balancing:
    """What leaves one node."""

    def __init__(
        self, coordinator: Coordinator, asking: Asking, *, power: PowerPolicy = POWER
    ) -> None:
        self._coordinator, self._asking = coordinator, asking
        self._host = coordinator.host
        self.power = power
        self._is_hot = False
        self._is_closed = False  # Nothing is lent any more, for want of power or of cold.
        self._was = ("", False)  # Why this node was to be left, and whether it is on battery.
        self._moved: dict[JobId, int] = {}  # Until when they do not wait here.
        self._moved_ms: int | None = None
        asking.shuns = self._shuns
        coordinator.host.may_go = self._may_go

    def look(self, now_ms: int, ready: Ready) -> None:
        """Send away what had better run elsewhere."""
        over = [job for job, until_ms in self._moved.items() if until_ms <= now_ms]
        for job in over:
            del self._moved[job]
        sample = self._host.lending.use.latest
        because = self._host.lending.gives_way(now_ms).because
        self._is_closed = because is not None and because.threshold in _WEAK
        state = (self.why(), sample is not None and sample.is_on_battery)
        if state != self._was or over:
            self._was = state
            self._asking.line_up(now_ms)  # What waited elsewhere only may wait here, or reverse.
        if self._host.is_draining:
            self._send_away(
                lambda tenant: self._leaves_drained(tenant, now_ms),
                "the drain of this node",
                now_ms,
                ready,
            )
        else:
            self._send_away(self._leaves_weak, "save power", now_ms, ready)
            self._make_even(now_ms, ready)

    def why(self) -> str:
        """Why this node's own work is to run elsewhere, in a word; empty: it is not."""
        if self._host.is_draining:
            return "drain"
        sample = self._host.lending.use.latest
        if sample is None:
            return ""
        self._is_hot = self._heat(sample)
        if self._is_hot:
            return "heat"
        return "battery" if self._is_low(sample) else ""

    def _is_low(self, sample: Sample) -> bool:
        level = sample.battery_percent
        is_known = sample.is_on_battery and level is not None
        return is_known and (level or 0) < self.power.battery_percent_min

    def _heat(self, sample: Sample) -> bool:
        limit = self.power.temperature_centi_max - (COOLER_CENTI if self._is_hot else 0)
        return sample.temperature_centi is not None and sample.temperature_centi > limit

    def _shuns(self, spec: JobSpec) -> bool:
        """Whether a job of this node had better not wait here, if it can run elsewhere."""
        return bool(self._was[0]) or spec.id in self._moved or self._is_unsafe(spec)

    def _is_unsafe(self, spec: JobSpec) -> bool:
        return self._was[1] and not spec.battery_safe

    def _may_go(self, job: JobId, now_ms: int) -> bool:
        """Whether others may take a job that waits here: it is about to ask them, or has asked."""
        wish = self._asking.wish(job)
        if wish is None:
            return False
        if wish.since_ms is None:  # Who seemed full a moment ago may have room by now.
            return self._asking.could_run(wish.job.spec)
        if wish.is_hopeful(now_ms):
            return True
        is_new = now_ms - wish.since_ms < ANSWER_MS
        return is_new and self._asking.has_room(wish.job.spec, wish.not_now(now_ms))

    # Who leaves

    def _send_away(self, which: Which, why: str, now_ms: int, ready: Ready) -> None:
        self._remember(self._coordinator.giving_way.send_away(which, why, now_ms, ready), now_ms)

    def _leaves_drained(self, tenant: Tenant, now_ms: int) -> bool:
        """Who can save its state, and guests that lose next to nothing. The rest runs to its end.

        Unless the owner cannot wait: then whatever may be started again elsewhere leaves.
        """
        spec, is_guest = tenant.job.spec, tenant.job.is_guest
        if not self._may_be_moved(tenant):
            return False
        if is_checkpointable(spec):
            return is_guest or self._asking.could_run(spec)
        if spec.at_most_once:
            return False  # Nobody may start it again.
        if is_guest:
            return self._host.is_left_now or _age_ms(tenant, now_ms) < YOUNG_MS
        return self._host.is_left_now and self._asking.could_run(spec)

    def _leaves_weak(self, tenant: Tenant) -> bool:
        """Those who can save their state; of guests the others are suspended, as lent work is."""
        spec = tenant.job.spec
        if not self._may_be_moved(tenant) or not is_checkpointable(spec):
            return False
        if tenant.job.is_guest:  # The owner's own stays: nothing keeps it from coming back.
            return self._is_closed and spec.is_shared
        return bool(self._was[0] or self._is_unsafe(spec)) and self._can_go_on_elsewhere(spec)

    def _may_be_moved(self, tenant: Tenant) -> bool:
        spec = tenant.job.spec
        may_refuse = not spec.is_shared or self._host.lending.terms.allow_no_preempt
        return not (spec.preempt.is_forbidden and may_refuse)

    def _can_go_on_elsewhere(self, spec: JobSpec) -> bool:
        return is_checkpointable(spec) and self._asking.could_run(spec)

    def _remember(self, jobs: list[JobId], now_ms: int) -> None:
        for job in jobs:
            self._moved[job] = now_ms + MOVED_MS
        while len(self._moved) > MOVED_MAX:
            del self._moved[next(iter(self._moved))]

    # Uneven load

    def _make_even(self, now_ms: int, ready: Ready) -> None:
        """Somebody can run nowhere but here, and others who run here could go on elsewhere now."""
        terms = self._host.lending.terms
        if (terms.mode, terms.policy) != ("dynamic_balancing", "aggressive"):
            return
        if self._moved_ms is not None and now_ms - self._moved_ms < MOVE_MS:
            return
        stuck = self._stuck(now_ms)
        if stuck is None:
            return

        def may_go(tenant: Tenant) -> bool:
            spec = tenant.job.spec
            is_settled = now_ms - tenant.attempt.granted_ms >= MOVE_MS
            is_own = not tenant.job.is_guest and is_checkpointable(spec)
            return (
                is_own and is_settled and self._may_be_moved(tenant) and self._asking.has_room(spec)
            )

        giving_way = self._coordinator.giving_way
        found = plan(self._host.ledger, giving_way.movable(may_go), stuck.request, now_ms)
        victims = found.victims if found else ()
        if victims:
            self._moved_ms = now_ms
            self._send_away(
                lambda tenant: tenant.attempt.lease in victims,
                f"job {stuck.job[:12]}, which can run nowhere else",
                now_ms,
                ready,
            )

    def _stuck(self, now_ms: int) -> Entry | None:
        """The first in the line, if it is the owner's, has waited, and only this node will do."""
        first = self._host.first(now_ms)
        job = self._coordinator.jobs.get(first.job) if first is not None else None
        if first is None or job is None or first.is_shared or first.job in self._host.awaited:
            return None
        is_new = now_ms - first.submitted_ms < STUCK_MS
        return None if is_new or self._asking.has_room(job.spec) else first


def _age_ms(tenant: Tenant, now_ms: int) -> int:
    """For how long it has been here; nothing is lost before it has begun."""
    return now_ms - tenant.attempt.granted_ms if tenant.attempt.state == "running" else 0
