"""Lending: whether this machine lends now, to whom it stays closed and why, when work gives way.

Lives here: the owner's terms over time: pause, hours, battery, heat, keys, habits, pressure. Never
here: how much is offered (`offers`), the averages (`usage`), measuring (`edges.probe`), suspending
anything (`giving_way`).
Invariant: without a fresh sample nothing is lent. Every "no" names a key of the file, with both
numbers.

`now_ms` and `Sample.at_ms` are of one clock that never goes back.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from distributed_grid.kernel import lending_policies, offers, usage
from distributed_grid.kernel.habits import BUSY_MILLI, Habits
from distributed_grid.kernel.lending_policies import MODES, POLICIES
from distributed_grid.kernel.offers import Survey
from distributed_grid.model import duration
from distributed_grid.model.bounds import Most, Name, Story
from distributed_grid.model.lending import (
    DAYS,
    WEEK_MINUTES,
    Sample,
    Terms,
    Withheld,
    clock,
    percent,
)
from distributed_grid.model.resources import Request, Resources

ALL: Final = "all"
_MINUTE_MS: Final = 60_000
_TOUCHED_MS: Final = 5 * 60_000  # A key within this: somebody is at the machine, for the habits.
_MAINS_ONLY: Final = 101
_COOLER_CENTI: Final = 500  # Five degrees below the limit it has cooled down.

Words = Most[tuple[Name, Story]]  # Key and value, as they were written.
State = Literal["open", "closed", "paused", "yielding"]


class Way(msgspec.Struct, frozen=True):
    """What borrowed work has to do now, and why."""

    action: Literal["none", "suspend", "stop"]
    because: Withheld | None = None
    spares_gpus: bool = False  # The cores alone are wanted back: GPUs with a core each stay lent.


class Admission(msgspec.Struct, frozen=True):
    """Whether a borrower's request may start now: yes if there is no reason against it."""

    reasons: tuple[Withheld, ...] = ()
    devices: frozenset[str] = frozenset()  # The GPUs that it may be given.


class Lending:
    """One machine's lending."""

    def __init__(
        self, total: Resources, terms: Terms | None = None, *, habits: tuple[int, ...] = ()
    ) -> None:
        self.total = total
        self.terms = terms or Terms()
        self.use = usage.Usage()
        self.habits = Habits(habits)
        self.paused_until_ms: int | None = None  # 0: until `resume`.
        self.words: Words = ()  # What the owner has set beside his configuration.
        self._sampled_ms = 0
        self._pressed: tuple[Withheld, ...] = ()
        self._is_hot = False
        self._way_since_ms: int | None = None

    # --- What happens to it ---------------------------------------------------------------------

    def sampled(self, sample: Sample, now_ms: int) -> None:
        """The machine was measured."""
        self.use.add(sample)
        self._sampled_ms = now_ms
        self._press()
        heat = sample.temperature_centi
        self._is_hot = heat is not None and heat >= self._heat_centi()
        touched = sample.idle_ms is not None and sample.idle_ms < _TOUCHED_MS
        is_loaded = any(
            self.use.highest_milli(limit.kind) >= limit.low_milli
            for limit in usage.limits(self.terms.thresholds, is_wary=True)
            if limit.kind != "memory"  # It stays taken over night.
        )
        self.habits.watched(sample.local_minute, sample.at_ms, is_active=touched or is_loaded)

    def forget_words(self, terms: Terms) -> None:
        """What the owner has set is read again; what was measured still counts."""
        self.words, self.paused_until_ms = (), None
        self.set_terms(terms)

    def set_terms(self, terms: Terms) -> None:
        """The owner changed his mind."""
        self.terms = terms
        self._pressed = ()
        self._press()

    def pause(self, until_ms: int = 0) -> None:
        """Lend nothing until then; 0: until `resume`."""
        self.paused_until_ms = until_ms

    def resume(self) -> None:
        """End a pause."""
        self.paused_until_ms = None

    @property
    def is_measured(self) -> bool:
        """Whether there was a sample since the start."""
        return self.use.latest is not None

    # --- What follows ---------------------------------------------------------------------------

    def survey(self, free: Resources, borrowed: Resources, now_ms: int) -> Survey:
        """What is offered, and what is not and why.

        `free` is the ledger's, with what somebody booked taken out; `borrowed` is what shared jobs
        hold.
        """
        sample = self.use.latest
        reasons = self._closed(now_ms) + self._owner_back()
        if sample is not None and (not reasons or _is_about_cores(reasons)):
            books = offers.Books(self.terms, self.use, sample, self.total, self._sampled_ms)
            books.pressed = reasons[0] if reasons else None
            found = offers.survey(books, free, borrowed)
            if not reasons or found.lent.gpus:
                return found
        return Survey(withheld=reasons)

    def admits(
        self, request: Request, free: Resources, borrowed: Resources, now_ms: int
    ) -> Admission:
        """Whether a borrower may have this now, and which devices for it."""
        return admission(self.survey(free, borrowed, now_ms), request)

    def state(self, now_ms: int) -> State:
        """In one word."""
        if self._is_paused(now_ms):
            return "paused"
        if self._closed(now_ms):
            return "closed"
        return "yielding" if self._owner_back() else "open"

    def gives_way(self, now_ms: int) -> Way:
        """What borrowed work has to do: asked at every look, because time counts too.

        Suspended work still holds its memory, so pressure on memory stops it at once.
        """
        reasons = [item for item in self._closed(now_ms) if item.threshold not in _ONLY_NO_OFFERS]
        reasons += self._owner_back() if self._balances else ()
        if not reasons:
            self._way_since_ms = None
            return Way("none")
        if self._way_since_ms is None:
            self._way_since_ms = now_ms
        waited_ms = now_ms - self._way_since_ms
        spares_gpus = _is_about_cores(reasons)
        if (
            self.terms.yield_to == "stop"
            or waited_ms >= lending_policies.suspended_ms_max(self.terms)
            or (self._balances and any(item.kind == "memory" for item in self._pressed))
        ):
            return Way("stop", reasons[0], spares_gpus)
        return Way("suspend", reasons[0], spares_gpus)

    def next_look_ms(self, *, is_lent: bool) -> int:
        """When to measure again: sooner while something is lent."""
        terms = self.terms
        return self._sampled_ms + (
            min(terms.monitoring_interval_ms, terms.check_interval_ms)
            if is_lent
            else terms.check_interval_ms
        )

    # --- Why not --------------------------------------------------------------------------------

    def _press(self) -> None:
        numbers = usage.limits(self.terms.thresholds, is_wary=POLICIES[self.terms.policy].is_wary)
        self._pressed = usage.pressed(self.use, numbers, self._pressed)

    def _heat_centi(self) -> int:
        """Where heat begins; where it ends is lower, or borrowed work would flicker."""
        return self.terms.temperature_max_centi - (_COOLER_CENTI if self._is_hot else 0)

    def _is_paused(self, now_ms: int) -> bool:
        until_ms = self.paused_until_ms
        return until_ms is not None and (until_ms == 0 or now_ms < until_ms)

    @property
    def _balances(self) -> bool:
        return MODES[self.terms.mode].gives_way and self.terms.yield_to != "ignore"

    def _owner_back(self) -> tuple[Withheld, ...]:
        """What shows that the owner needs the machine himself."""
        # Whatever presses, the owner is there: but for cores, nothing at all is lent.
        pressed = tuple(
            msgspec.structs.replace(item, kind=ALL) for item in self._pressed if self._balances
        )
        wanted_ms = lending_policies.quiet_ms(self.terms)
        idle_ms = self.use.latest.idle_ms if self.use.latest else None
        if idle_ms is None or idle_ms >= wanted_ms:
            return pressed
        touched = f"{duration.text(idle_ms)} since the last key"
        return (*pressed, _no("quiet", duration.text(wanted_ms), touched))

    def _closed(self, now_ms: int) -> tuple[Withheld, ...]:
        """Why the whole machine lends nothing, whatever is idle."""
        terms, sample = self.terms, self.use.latest
        found = []
        if not terms.is_enabled:
            found.append(_no("enabled", "true", "false"))
        if not MODES[terms.mode].lends:
            found.append(_no("mode", "a mode that lends", terms.mode))
        if self._is_paused(now_ms):
            left_ms = max((self.paused_until_ms or 0) - now_ms, 0)
            told = f"paused for {duration.text(left_ms)} more" if left_ms else "paused"
            found.append(_no("paused", "not paused", told))
        if sample is None:
            return (*found, _no(_STALE, "a sample", "nothing was measured yet"))
        age_ms = now_ms - self._sampled_ms
        if age_ms >= terms.offer_expiry_ms:
            told = f"no sample for {duration.text(age_ms)}"
            found.append(_no(_STALE, duration.text(terms.offer_expiry_ms), told))
        minute = (sample.local_minute + age_ms // _MINUTE_MS) % WEEK_MINUTES
        found += _surroundings(terms, sample, minute)
        if self._is_hot:
            heat = _degrees(sample.temperature_centi or 0)
            found.append(_no("temperature_max", _degrees(self._heat_centi()), heat))
        return (*found, *self._habit(minute))

    def _habit(self, minute: int) -> tuple[Withheld, ...]:
        expected = self.habits.expected_milli(minute)
        if not POLICIES[self.terms.policy].learns or expected is None or expected <= BUSY_MILLI:
            return ()
        told = f"usually active {percent(expected)} of this hour"
        return (_no(_HABIT, percent(BUSY_MILLI), told),)


_STALE: Final = "offer_expiry"
_HABIT: Final = "policy"
# Nothing new is lent, but nothing that runs is disturbed.
_ONLY_NO_OFFERS: Final = frozenset({_STALE, _HABIT})
_ABOUT_CORES: Final = frozenset({"cpu_percent_max", "cpu_pressure_high", "cpu_pressure_low"})


def admission(survey: Survey, request: Request) -> Admission:
    """Whether a request fits what is offered."""
    if survey.only_with_gpu is not None and not request.gpus:
        return Admission(reasons=(survey.only_with_gpu,))
    lent, cores = survey.lent, offers.beside_gpus(request, survey.cores_beside_gpus)
    if cores > lent.cpu_milli:
        lent = msgspec.structs.replace(lent, cpu_milli=cores)
    missing = lent.shortfall(request)
    if not missing:
        return Admission(devices=frozenset(gpu.device for gpu in survey.lent.gpus))
    found: list[Withheld] = [item for item in survey.withheld if item.kind == ALL]
    for what, wanted, has in missing if not found else ():
        kind = offers.KIND_OF.get(what, what.removeprefix("custom."))
        found += [item for item in survey.withheld if item.kind == kind]
        told = offers.amount_text(kind, has), offers.amount_text(kind, wanted)
        found.append(
            Withheld(kind=kind, threshold="offered", limit=told[0], measured=f"{told[1]} asked for")
        )
    return Admission(reasons=tuple(found))


def in_words(one: Withheld) -> str:
    """What stands in the way, in a few words."""
    if one.threshold == "paused":
        return "lending is paused"
    where = f" ({one.device})" if one.device else ""
    return f"{one.threshold} is {one.limit}, measured {one.measured}{where}"


def _surroundings(terms: Terms, sample: Sample, minute: int) -> list[Withheld]:
    """Hours and current."""
    found = []
    if not terms.hours.is_open(minute):
        day = minute // (24 * 60)
        limit = f"{terms.hours.span} {terms.hours.day_names}"
        found.append(_no("hours", limit, f"{DAYS[day]} {clock(minute % (24 * 60))}"))
    level = sample.battery_percent
    if sample.is_on_battery and (level is None or level < terms.battery_min_percent):
        limit = f"{terms.battery_min_percent} %"
        found.append(
            _no(
                "battery_min_percent",
                "mains" if terms.battery_min_percent >= _MAINS_ONLY else limit,
                "on battery" if level is None else f"on battery, {level} %",
            )
        )
    return found


def _is_about_cores(reasons: Sequence[Withheld]) -> bool:
    return len(reasons) == 1 and reasons[0].threshold in _ABOUT_CORES


def _no(threshold: str, limit: str, measured: str) -> Withheld:
    return Withheld(kind=ALL, threshold=threshold, limit=limit, measured=measured)


def _degrees(centi: int) -> str:
    return f"{centi // 100} °C"
