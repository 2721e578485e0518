import msgspec
import pytest

from distributed_grid.client import calls
from distributed_grid.client.exchange import Response
from distributed_grid.client.submission import waited
from distributed_grid.errors import NotFound
from distributed_grid.wire.api import WAIT_JOBS_MAX, Jobs, WaitMany
from tests.agent_stand_in import a_view


def ok(*views, took_ms: int = 0) -> Response:
    return Response(200, msgspec.json.encode(Jobs(jobs=views)), took_ms)


def asked(request) -> WaitMany:
    assert request.target == "/v1/jobs/wait"
    return msgspec.json.decode(request.body, type=WaitMany)


def value_of(call, response):
    with pytest.raises(StopIteration) as done:
        call.send(response)
    return done.value.value


def test_jobs_come_in_the_order_of_the_question_and_twice_if_asked_for_twice():
    one, two = a_view("one"), a_view("two")
    call = calls.wait_many([two.id, one.id, two.id])

    assert asked(next(call)).ids == (f"id:{two.id}", f"id:{one.id}")
    assert value_of(call, ok(one, two)) == [two, one, two]


def test_nothing_to_wait_for_is_no_question():
    with pytest.raises(StopIteration) as done:
        next(calls.wait_many([]))

    assert done.value.value == []


def test_those_that_have_not_ended_are_asked_for_again():
    one, two = a_view("one"), a_view("two")
    call = calls.wait_many([one.id, two.id])
    next(call)

    assert asked(call.send(ok(one, took_ms=30_000))).ids == (f"id:{two.id}",)
    assert value_of(call, ok(two)) == [one, two]


def test_more_than_fit_into_one_question_are_asked_for_in_several():
    views = [a_view(f"job-{number}") for number in range(WAIT_JOBS_MAX + 1)]
    call = calls.wait_many([view.id for view in views])

    assert len(asked(next(call)).ids) == WAIT_JOBS_MAX
    assert asked(call.send(ok(*views[:-1]))).ids == (f"id:{views[-1].id}",)
    assert value_of(call, ok(views[-1])) == views


def test_when_the_time_is_over_the_others_are_told_as_they_are():
    one, two = a_view("one"), a_view("two", state="running", exit_code=None)
    call = calls.wait_many([one.id, two.id], timeout_ms=50)

    assert asked(next(call)).timeout_ms == 50
    request = call.send(ok(one, took_ms=50))
    assert request.target == f"/v1/jobs/id:{two.id}"
    assert value_of(call, Response(200, msgspec.json.encode(two))) == [one, two]


def test_a_list_of_which_one_has_not_ended_in_time_is_a_timeout_error_with_that_one():
    two = a_view("two", state="running", exit_code=None)
    call = waited([a_view("one"), two], timeout="50ms")
    next(call)
    call.send(ok(a_view("one"), took_ms=60))

    with pytest.raises(TimeoutError) as late:
        call.send(Response(200, msgspec.json.encode(two)))
    assert late.value.job == two


def test_words_are_looked_up_before_anything_is_waited_for():
    call = waited(["one", a_view("two")], timeout=None)

    assert next(call).target == "/v1/jobs/one"
    first = call.send(Response(200, msgspec.json.encode(a_view("one"))))
    assert asked(first).ids == (f"id:{a_view('one').id}", f"id:{a_view('two').id}")


def test_a_condition_is_looked_at_only_where_there_is_no_such_job():
    call = calls.resolved(["build:odd"])
    next(call)
    view = a_view("build:odd")

    assert value_of(call, Response(200, msgspec.json.encode(view)))[0].job == view.id


def test_a_word_without_a_condition_stays_not_found():
    call = calls.resolved(["build"])
    next(call)
    problem = {"error": "NotFound", "message": "none", "remedy": "look", "facts": {"kind": "job"}}

    with pytest.raises(NotFound):
        call.send(Response(404, msgspec.json.encode(problem)))
