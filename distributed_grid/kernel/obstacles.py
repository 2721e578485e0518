"""What stands between a job that waits and its start, as data and in a few words.

Lives here: asking ledger, lending and bookings without changing them. Never here: granting
(`host`), the order (`waiting`).
Invariant: nothing here reserves, and what is told has both numbers.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.host import Host, Kept
from distributed_grid.kernel.ledger import Shortfall
from distributed_grid.kernel.lending import admission, in_words
from distributed_grid.kernel.offers import KIND_OF, Survey, amount_text
from distributed_grid.model.lending import Withheld

LEND: Final = "grid offer all, or: grid offer set KEY VALUE"  # Whatever keeps it from lending.
Missing = tuple[tuple[str, int, int], ...]  # (what, wanted, free)


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why not now."""

    summary: str  # A sentence.
    waits: str = ""  # The same in a few words, for a table. Empty: only for its turn.
    missing: Missing = ()
    command: str = ""  # What its owner types there to change it; empty: that would not help.
    remedies: tuple[str, ...] = ()


TURN = Obstacle(
    summary="it would fit, and waits for its turn",
    remedies=("wait: whoever is ahead of it comes first",),
)


DRAINED = Obstacle(
    summary="its node is being drained, and starts nothing",
    waits="grid undrain",
    remedies=("let the node take work again with: grid undrain NODE",),
)


def survey_of(host: Host, now_ms: int) -> Survey:
    """What is offered now."""
    return host.lending.survey(host.ledger.free(), host.borrowed, now_ms)


def obstacle(host: Host, entry: Entry, now_ms: int, survey: Survey) -> Obstacle:
    """What one who waits waits for; `survey` is what is offered now."""
    never = host.ledger.could_ever(entry.request)
    if never is not None:
        return _too_large(never)
    if host.is_draining:
        return DRAINED
    if entry.job in host.awaited:
        return Obstacle(
            summary="others were told to give way for it",
            waits="others to give way",
            remedies=("wait: their time to save their work is short",),
        )
    free = host.ledger.free()
    missing = tuple(free.shortfall(entry.request))
    if missing:
        return _in_use(missing)
    kept = host.beside_bookings(entry, free, now_ms)[0] if len(host.bookings) else None
    if kept is not None:
        return _booked(kept.missing) if isinstance(kept, Kept) else _ahead(kept.bookings)
    if entry.is_shared:
        reasons = admission(survey, entry.request).reasons
        if reasons:
            return _not_offered(reasons)
    return TURN


def _too_large(never: Shortfall) -> Obstacle:
    return Obstacle(
        summary="it is larger than this machine, and waits for one that is not",
        waits="a larger machine",
        missing=tuple(never.missing),
        remedies=("ask for less", "add a larger machine"),
    )


def _in_use(missing: Missing) -> Obstacle:
    return Obstacle(
        summary="it waits for resources that others use",
        waits=", ".join(_amounts(*item) for item in missing),
        missing=missing,
        remedies=("wait until one of these ends", "ask for less"),
    )


def _booked(missing: Missing) -> Obstacle:
    return Obstacle(
        summary="what is free now is booked by others",
        waits="the end of a booking",
        missing=missing,
        remedies=("wait until the booking ends", "use a booking of your own with --booking"),
    )


def _ahead(bookings: tuple[str, ...]) -> Obstacle:
    names = ", ".join(bookings)
    return Obstacle(
        summary=f"it would still run when a booking begins, and leave it too little: {names}",
        waits=f"booking {names}",
        remedies=("give it a shorter --timeout", "wait until the booking ends"),
    )


def _not_offered(reasons: tuple[Withheld, ...]) -> Obstacle:
    told = "; ".join(in_words(one) for one in reasons)
    command = "grid offer resume" if reasons[0].threshold == "paused" else LEND
    return Obstacle(
        summary=f"the owner does not lend what it asks for: {told}",
        waits=f"an offer: {in_words(reasons[0])}",
        command=command,
        remedies=("wait until the machine is idle", "ask for less", f"lend it: {command}"),
    )


def _amounts(what: str, wanted: int, free: int) -> str:
    kind = KIND_OF.get(what, what.removeprefix("custom."))
    return f"{amount_text(kind, wanted)}, {amount_text(kind, free)} free"
