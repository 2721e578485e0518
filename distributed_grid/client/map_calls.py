"""What can be asked about maps, as `calls` has it for jobs: generators of requests.

Lives here: the msgpack bodies. Never here: what is in them (`mapping`, `worker`).
"""

from typing import Any, Final, TypeVar

import msgspec

from distributed_grid.client.calls import Call
from distributed_grid.client.exchange import BadAnswer, Request, Response
from distributed_grid.client.problems import problem_of
from distributed_grid.client.streams import QUIET_MS, Stream
from distributed_grid.wire.api import ROUTES, Nothing
from distributed_grid.wire.maps import (
    FeedMap,
    MapNews,
    OpenMap,
    TakeCalls,
    TakenCalls,
    ValueHere,
    WantValue,
)

T = TypeVar("T")

VALUE_MS: Final = 600_000  # It may come over a slow link.
MEDIA: Final = "application/msgpack"
_ROUTES: Final = {route.name: route for route in ROUTES if "/maps" in route.path}


def open_map(wanted: OpenMap) -> Call[Nothing]:
    """Begin a map, or bring more workers to it."""
    return _decoded((yield _request("open_map", body=wanted)), Nothing)


def feed(map_id: str, fed: FeedMap) -> Call[MapNews]:
    """Add calls, and hear of earlier ones."""
    return news_of((yield feed_request(map_id, fed)))


def feed_request(map_id: str, fed: FeedMap) -> Request:
    """The question of `feed`, for who waits for its answer in another way."""
    return _request("feed_map", map_id, fed, wait_ms=fed.wait_ms)


def news_of(response: Response) -> MapNews:
    """The answer to it."""
    return _decoded(response, MapNews)


def take(map_id: str, wanted: TakeCalls) -> Call[TakenCalls]:
    """Tell outcomes, and get calls."""
    request = _request("take_calls", map_id, wanted, wait_ms=wanted.wait_ms)
    return _decoded((yield request), TakenCalls)


def value(map_id: str, wanted: WantValue) -> Call[ValueHere]:
    """Where a large value is."""
    request = _request("map_value", map_id, wanted, wait_ms=VALUE_MS)
    return _decoded((yield request), ValueHere)


def close(map_id: str) -> Call[None]:
    """End a map."""
    response = yield _request("close_map", map_id)
    if response.status != 200:
        raise problem_of(response)


class Hold(Stream[bytes]):
    """An open connection that says: the client of this map lives."""

    def __init__(self, map_id: str) -> None:
        super().__init__()
        self._map = map_id

    def request(self) -> Request:
        """The question whose answer does not end."""
        return _request("hold_map", self._map, wait_ms=QUIET_MS)

    def heard(self, data: bytes) -> list[bytes]:
        """Nothing worth knowing."""
        return [data]


def _request(operation: str, map_id: str = "", body: Any = None, wait_ms: int = 0) -> Request:
    route = _ROUTES[operation]
    return Request(
        method=route.method,
        target=route.path.replace("{map}", map_id),
        body=b"" if body is None else msgspec.msgpack.encode(body),
        wait_ms=wait_ms,
        media=MEDIA,
    )


def _decoded(response: Response, kind: type[T]) -> T:
    if not 200 <= response.status < 300:
        raise problem_of(response)
    try:
        return msgspec.msgpack.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(str(error)) from error
