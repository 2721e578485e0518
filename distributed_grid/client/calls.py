"""What can be asked of an agent, each as a generator: it yields requests and receives responses.

Lives here: one body for the blocking and the async client. Never here: sockets, clocks, waiting.
Invariant: every call ends in a value of its type or in a GridError.
"""

from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from distributed_grid.client.exchange import BadAnswer, Request, Response
from distributed_grid.client.problems import problem_of
from distributed_grid.errors import BadValue, GridError, NotFound, shown
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import After, JobSpec
from distributed_grid.wire.api import (
    ENDED,
    ROUTES,
    WAIT_JOBS_MAX,
    Down,
    Explanation,
    Jobs,
    JobView,
    NodeStatus,
    Nothing,
    Submit,
    Submitted,
    WaitMany,
)

T = TypeVar("T")
Call = Generator[Request, Response, T]

WAIT_MS: Final = 30_000  # Of one question: an agent that died unnoticed is noticed by then.
_ROUTES: Final = {route.name: route for route in ROUTES}
_PLAIN: Final = str.maketrans(
    "", "", "-._~:"
)  # May stand in paths and queries, beside alphanumerics.


class NotEnded(GridError, TimeoutError):
    """The time is over, the job is not."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        super().__init__(
            f"job {shown(job.name)} has not ended in time, it is {job.state}",
            remedy="Wait longer, or ask grid explain why it takes so long",
        )


def request_for(
    operation: str, *, job: str = "", body: Any = None, wait_ms: int = 0, **query: Any
) -> Request:
    """The request of a route of the table; empty, zero and false are left out of the query."""
    route = _ROUTES[operation]
    if "{job}" in route.path and not job:
        raise BadValue(job, expected="a job", remedy="Give its id, its name or the start of its id")
    words = {key: _word(value) for key, value in query.items() if value not in ("", 0, False, None)}
    target = route.path.replace("{job}", quoted(job))
    pairs = "&".join(f"{key}={quoted(word)}" for key, word in words.items())
    return Request(
        method=route.method,
        target=f"{target}?{pairs}" if pairs else target,
        body=b"" if body is None else msgspec.json.encode(body),
        wait_ms=wait_ms,
        is_repeatable=operation
        != "down",  # Submitting again changes nothing: the id is the client's.
    )


def decoded(response: Response, kind: type[T]) -> T:
    """The answer as its type, or the problem as its error."""
    if not 200 <= response.status < 300:
        raise problem_of(response)
    try:
        return msgspec.json.decode(response.body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(str(error)) from error


def submit(jobs: Iterable[JobSpec]) -> Call[Submitted]:
    """Submit jobs; they are durable when this ends."""
    return decoded((yield request_for("submit", body=Submit(jobs=tuple(jobs)))), Submitted)


def resolved(words: Iterable[str]) -> Call[tuple[After, ...]]:
    """What a job comes after, from `JOB`, `JOB:ok`, `JOB:any`, `JOB:failed`: names become ids."""
    found = []
    for text in words:
        word, when = after_parts(text)
        try:
            view = yield from job(word)
        except NotFound:
            _refuse_condition(text)
            raise
        found.append(After(job=view.id, when=when))
    return tuple(found)


def after_parts(text: str) -> tuple[str, Any]:
    """`build:any` is the job build, ended in any way; without a condition: ended well."""
    word, colon, when = text.rpartition(":")
    return (word, when) if colon and when in ("ok", "any", "failed") else (text, "ok")


def _refuse_condition(text: str) -> None:
    """`build:bogus` is no job; most likely it was meant as one, with a condition."""
    word, _, when = text.rpartition(":")
    if word and word not in ("id", "name") and when not in ("ok", "any", "failed"):
        raise BadValue(
            text,
            expected="a job to come after, with :ok, :any, :failed or nothing behind it",
            remedy=f"Write {word}:any to go on however it ends",
            field="after",
        ) from None


def jobs(*, state: str = "", name: str = "", user: str = "", limit: int = 0,
         before_ms: int = 0) -> Call[Jobs]:  # fmt: skip
    """A page of jobs, newest first."""
    request = request_for(
        "jobs", state=state, name=name, user=user, limit=limit, before_ms=before_ms
    )
    return decoded((yield request), Jobs)


def job(word: str) -> Call[JobView]:
    """One job, by id, name or prefix."""
    return decoded((yield request_for("job", job=word)), JobView)


def wait(word: str, *, timeout_ms: int | None = None) -> Call[JobView]:
    """The job once it has ended, or as it is when the time is over."""
    left_ms = timeout_ms
    while True:
        ask_ms = WAIT_MS if left_ms is None else max(min(WAIT_MS, left_ms), 1)
        request = request_for("wait", job=word, wait_ms=ask_ms, timeout_ms=ask_ms)
        response = yield request
        view = decoded(response, JobView)
        if left_ms is not None:
            left_ms -= max(response.took_ms, 1)
        if view.state in ENDED or (left_ms is not None and left_ms <= 0):
            return view
        word = f"id:{view.id}"  # From now on this job, even if another takes its name.


def ended(word: str, *, timeout_ms: int | None = None) -> Call[JobView]:
    """The job once it has ended; NotEnded if that takes too long."""
    view = yield from wait(word, timeout_ms=timeout_ms)
    if view.state not in ENDED:
        raise NotEnded(view)
    return view


def wait_many(ids: Iterable[JobId], *, timeout_ms: int | None = None) -> Call[list[JobView]]:
    """Jobs in this order, once all have ended, or as they are when the time is over.

    Those that ended in time come without their story: a thousand of them fit into one answer.
    """
    wanted = list(ids)
    left = dict.fromkeys(wanted)  # In their order; the first are asked for first.
    found: dict[JobId, JobView] = {}
    left_ms = timeout_ms
    while left:
        ask_ms = WAIT_MS if left_ms is None else max(min(WAIT_MS, left_ms), 1)
        words = tuple(f"id:{one}" for one in islice(left, WAIT_JOBS_MAX))
        body = WaitMany(ids=words, timeout_ms=ask_ms)
        response = yield request_for("wait_many", body=body, wait_ms=ask_ms)
        for view in decoded(response, Jobs).jobs:
            if view.state in ENDED:
                found[view.id] = view
                left.pop(view.id, None)
        if left_ms is not None:
            left_ms -= max(response.took_ms, 1)
            if left_ms <= 0:
                break
    for one in left:
        found[one] = yield from job(f"id:{one}")
    return [found[one] for one in wanted]


def cancel(word: str) -> Call[JobView]:
    """Cancel a job."""
    return decoded((yield request_for("cancel", job=word)), JobView)


def explain(word: str) -> Call[Explanation]:
    """Why a job is where it is."""
    return decoded((yield request_for("explain", job=word)), Explanation)


def logs(word: str, *, stream: str = "stdout", index: int | None = None) -> Call[bytes]:
    """What a job has written so far."""
    response = yield request_for("logs", job=word, stream=stream, index=_index(index))
    if response.status != 200:
        raise problem_of(response)
    return response.body


def status() -> Call[NodeStatus]:
    """This node."""
    return decoded((yield request_for("status")), NodeStatus)


def health() -> Call[Nothing]:
    """Nothing, if the agent answers."""
    return decoded((yield request_for("health")), Nothing)


def down(*, stop_jobs: bool) -> Call[Nothing]:
    """Stop the agent, in a moment."""
    return decoded((yield request_for("down", body=Down(stop_jobs=stop_jobs))), Nothing)


def job_word(job: Any) -> str:
    """What names a job: a word, or anything with an id, such as a handle or a view."""
    if isinstance(job, str):
        return job
    job_id: JobId = job.id
    return f"id:{job_id}"


def _index(index: int | None) -> str:
    return "" if index is None else str(index)


def _word(value: Any) -> str:
    return "true" if value is True else str(value)


def quoted(text: str) -> str:
    """Text as it may stand in a path or a query."""
    # urllib.parse does the same, and costs every `grid run` two milliseconds.
    is_plain = text.isascii() and text.translate(_PLAIN).isalnum()
    return text if is_plain else "".join(f"%{byte:02X}" for byte in text.encode(errors="replace"))
