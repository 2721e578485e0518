"""Answers to the questions of other nodes: the same handlers that answer this node's own clients.

Lives here: from a question to the request of a route, and what its handler gives back, in pieces.
Never here: who may ask, and how pieces travel (`agent.questions`), what an operation does
(`agent`).
Invariant: an operation has one implementation, whoever asks; a guest sees its own jobs only.
"""

from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from distributed_grid.agent import Operations
from distributed_grid.agent.far_maps import PART, TAKE, VALUE, FarWorkers
from distributed_grid.agent.guests_only import GuestsOnly
from distributed_grid.agent.questions import Asker, Piece
from distributed_grid.agent.tails import TailAnswers
from distributed_grid.errors import GridError, NotFound
from distributed_grid.web.problems import problem_response
from distributed_grid.web.routes import HANDLERS
from distributed_grid.wire.across_api import ACROSS_ROUTES
from distributed_grid.wire.api import ROUTES, Route
from distributed_grid.wire.problems import OK
from distributed_grid.wire.questions import ASKED, Question
from distributed_grid.wire.sharing import SHARING_ROUTES
from distributed_grid.wire.tails import TAILS

_ROUTES: Final[dict[str, Route]] = {
    route.name: route for route in (*ROUTES, *SHARING_ROUTES, *ACROSS_ROUTES) if route.name in ASKED
}


class Asked:
    """Answers for one agent, with what it knows itself: so no question travels in circles."""

    def __init__(
        self,
        own: Operations,
        *,
        workers: FarWorkers | None = None,
        tails: TailAnswers | None = None,
    ) -> None:
        self._own, self._workers, self._tails = own, workers, tails

    async def __call__(self, asker: Asker, question: Question) -> AsyncGenerator[Piece, None]:
        """The answer, in one piece or as it comes."""
        own: Any = GuestsOnly(self._own, asker) if asker.is_guest else self._own
        try:
            if question.operation in (TAKE, PART, VALUE):
                answer: Any = Response(await self._worker(asker, question))
            elif question.operation == TAILS:
                answer = Response(await self._ends(asker, question))
            else:
                answer = await HANDLERS[question.operation](own, _request(question))
        except GridError as error:
            answer = problem_response(error)
        if isinstance(answer, StreamingResponse):
            async for part in answer.body_iterator:
                assert isinstance(part, bytes), "our streams are of bytes"
                yield Piece(OK, part)
        elif isinstance(answer, Response):
            yield Piece(answer.status_code, bytes(answer.body))
        else:
            yield Piece(OK, msgspec.json.encode(answer))

    async def _worker(self, asker: Asker, question: Question) -> bytes:
        if self._workers is None:
            raise NotFound("map", question.query.get("map", ""))
        return await self._workers.answer(asker, question)

    async def _ends(self, asker: Asker, question: Question) -> bytes:
        if self._tails is None:
            raise NotFound("path", TAILS)
        return await self._tails.answer(asker, question)


def _request(question: Question) -> Request:
    """The request that a client of this node would have sent."""
    route = _ROUTES[question.operation]
    words = dict(question.query)
    # Those of the path are told by their names, too.
    places = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    scope: dict[str, Any] = {
        "type": "http",
        "method": route.method,
        "path": route.path,
        "headers": [],
        "path_params": {name: words.pop(name, "") for name in places},
        "query_string": urlencode(words).encode(),
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": question.body, "more_body": False}

    return Request(scope, receive)
