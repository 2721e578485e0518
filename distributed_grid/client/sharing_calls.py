"""What can be asked about lending, booking and the queue, as `calls` has it for jobs.

Lives here: one generator for each route. Never here: what the answers mean for a job (`borrowing`).
"""

from typing import Any, Final

import msgspec

from distributed_grid.client.calls import Call, decoded
from distributed_grid.client.exchange import Request
from distributed_grid.errors import BadValue
from distributed_grid.model.booking import Booking
from distributed_grid.wire.api import Nothing
from distributed_grid.wire.sharing import SHARING_ROUTES, ChangeOffers, Queue, SharingStatus

_ROUTES: Final = {route.name: route for route in SHARING_ROUTES}
_PLAIN: Final = "-._~"  # Beside letters and digits, what a path may hold as it is.


def sharing() -> Call[SharingStatus]:
    """What is offered, what is not and why, what is borrowed."""
    return decoded((yield _request("sharing")), SharingStatus)


def change_offers(change: ChangeOffers) -> Call[SharingStatus]:
    """Pause lending, go on, or set one of its terms."""
    return decoded((yield _request("change_offers", body=change)), SharingStatus)


def book(booking: Booking) -> Call[Nothing]:
    """Keep resources for a stretch of time; the same booking again changes nothing."""
    return decoded((yield _request("book", body=booking)), Nothing)


def cancel_booking(name: str) -> Call[Nothing]:
    """Give a booking back."""
    if not name:
        raise BadValue(name, expected="the name of a booking", remedy="See: grid offer show")
    return decoded((yield _request("cancel_booking", name=name)), Nothing)


def queue(*, limit: int = 0) -> Call[Queue]:
    """The waiting jobs in the order of service."""
    return decoded((yield _request("queue", query=f"?limit={limit}" if limit else "")), Queue)


def _request(operation: str, *, name: str = "", query: str = "", body: Any = None) -> Request:
    route = _ROUTES[operation]
    return Request(
        method=route.method,
        target=route.path.replace("{name}", _quoted(name)) + query,
        body=b"" if body is None else msgspec.json.encode(body),
        # Giving back twice is an error the second time: whoever asks shall hear the first answer.
        is_repeatable=operation != "cancel_booking",
    )


def _quoted(text: str) -> str:
    plain = all(letter.isascii() and (letter.isalnum() or letter in _PLAIN) for letter in text)
    return text if plain else "".join(f"%{byte:02X}" for byte in text.encode(errors="replace"))
