"""Borrowing without a socket: what is asked, how long, and what is said when nothing comes."""

import msgspec
import pytest

from distributed_grid.client import borrowing, sharing_calls
from distributed_grid.client.exchange import Request, Response
from distributed_grid.client.specification import specification
from distributed_grid.errors import BadValue
from distributed_grid.wire.api import JobView
from tests.agent_stand_in import a_view, an_attempt

JOB = a_view().id


def answered(call, *answers: Response) -> tuple[list[Request], object]:
    """Drive a call with these answers; what it asked, and its value."""
    asked = [next(call)]
    for answer in answers:
        try:
            asked.append(call.send(answer))
        except StopIteration as done:
            return asked, done.value
    raise AssertionError(f"it asks for more: {asked[-1]}")


def view(took_ms: int = 30, **fields) -> Response:
    return Response(200, msgspec.json.encode(a_view(**fields)), took_ms)


def waiting(took_ms: int = 30) -> Response:
    return view(took_ms, state="waiting", exit_code=None)


def test_a_job_that_begins_late_is_looked_after_less_and_less_often():
    asked, found = answered(
        borrowing.begun(JOB, wait_ms=10_000),
        *[waiting()] * 7,
        view(state="running", exit_code=None),
    )

    assert [request.wait_ms for request in asked] == [25, 50, 100, 200, 400, 500, 500, 500]
    assert isinstance(found, JobView)


def test_the_time_is_counted_by_how_long_the_answers_took():
    asked, found = answered(borrowing.begun(JOB, wait_ms=100), waiting(60), waiting(60))

    assert [request.wait_ms for request in asked] == [25, 40]
    assert found is None


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "succeeded"},
        {"state": "cancelled", "exit_code": None},
        {"state": "waiting", "attempts": (an_attempt(state="granted"),)},
        {"state": "waiting", "attempts": (an_attempt(state="running"),)},
    ],
)
def test_what_was_lent_once_is_not_waited_for_again(fields):
    _, found = answered(borrowing.begun(JOB, wait_ms=0), view(**fields))

    assert found is not None


def test_an_attempt_that_has_ended_holds_nothing():
    _, found = answered(
        borrowing.begun(JOB, wait_ms=1), view(state="waiting", attempts=(an_attempt(),))
    )

    assert found is None


@pytest.mark.parametrize(
    ("told", "seconds"), [(300, 300), ("5m", 300), (0, 0), ("0.5", 0.5), (1.5, 1.5)]
)
def test_a_wait_is_in_seconds_unless_it_says_otherwise(told, seconds):
    assert borrowing.wait_ms_of(told) == seconds * 1_000


def test_a_booking_without_a_name_cannot_be_given_back():
    with pytest.raises(BadValue, match="the name of a booking"):
        next(sharing_calls.cancel_booking(""))


def test_a_name_of_any_letters_reaches_its_route():
    request = next(sharing_calls.cancel_booking("ü1"))

    assert request.target == "/v1/bookings/%C3%BC%31/cancel"
    assert not request.is_repeatable


@pytest.mark.parametrize("what", ["project", "booking"])
def test_names_of_projects_and_bookings_are_short_and_printable(what):
    for bad in ("a\nb", "x" * 254):
        with pytest.raises(BadValue, match=f"a {what} of at most"):
            specification("true", {what: bad})


def test_a_moment_may_be_a_datetime():
    from datetime import UTC, datetime

    spec = specification("true", {"start_at": datetime(2040, 1, 1, tzinfo=UTC)})

    assert spec.start_ms == 2_208_988_800_000


def test_who_waited_for_nothing_is_not_told_to_wait_longer():
    at_once = borrowing.NoResources("2 nodes", reasons=[("gpu1", "not joined")], waited_ms=0)
    later = borrowing.NoResources("1 gpu", reasons=[("desk", "busy")], waited_ms=50)

    assert at_once.message == "No resources available for 2 nodes (gpu1: not joined)"
    assert at_once.remedy == "See what is offered with: grid shared-status"
    assert later.message == "No resources available for 1 gpu within 50ms (desk: busy)"
    assert later.remedy.endswith("wait longer with --wait-time")
