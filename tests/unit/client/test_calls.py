import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid import errors
from distributed_grid.client import calls
from distributed_grid.client.exchange import BadAnswer, Response
from distributed_grid.client.problems import problem_of
from distributed_grid.errors import Ambiguous, BadValue, GridError, NeverFits, NotFound
from distributed_grid.wire.api import Jobs, Problem
from distributed_grid.wire.problems import error_of
from tests.agent_stand_in import a_view


def ok(value: object, *, took_ms: int = 0) -> Response:
    return Response(200, msgspec.json.encode(value), took_ms)


def ended_with(call, response):
    with pytest.raises(StopIteration) as done:
        call.send(response)
    return done.value.value


def test_a_call_yields_its_request_and_returns_the_answer():
    call = calls.job("build")
    request = next(call)

    assert (request.method, request.target, request.is_repeatable) == (
        "GET",
        "/v1/jobs/build",
        True,
    )
    assert ended_with(call, ok(a_view())) == a_view()


def test_a_word_is_quoted_so_that_it_stays_one_part_of_the_path():
    request = next(calls.job("a/b?c=d e%ü"))

    assert request.target == "/v1/jobs/%61%2F%62%3F%63%3D%64%20%65%25%C3%BC"


def test_filters_that_say_nothing_are_left_out():
    assert next(calls.jobs()).target == "/v1/jobs"
    assert next(calls.jobs(state="running", limit=5)).target == "/v1/jobs?state=running&limit=5"
    assert next(calls.logs("x", index=0)).target == "/v1/jobs/x/logs?stream=stdout&index=0"


def test_waiting_asks_again_until_the_job_has_ended_and_keeps_to_the_job_it_found():
    call = calls.wait("build")
    next(call)
    again = call.send(ok(a_view(state="running"), took_ms=30_000))

    assert again.target == f"/v1/jobs/id:{a_view().id}/wait?timeout_ms=30000"
    assert ended_with(call, ok(a_view())).state == "succeeded"


def test_waiting_ends_when_the_time_is_over():
    call = calls.wait("build", timeout_ms=40_000)
    assert "timeout_ms=30000" in next(call).target
    assert "timeout_ms=10000" in call.send(ok(a_view(state="running"), took_ms=30_000)).target

    assert ended_with(call, ok(a_view(state="running"), took_ms=10_000)).state == "running"


def test_a_job_that_has_not_ended_in_time_is_a_timeout_error_with_the_job():
    call = calls.ended("build", timeout_ms=1)
    next(call)

    with pytest.raises(TimeoutError) as raised:
        call.send(ok(a_view(state="running"), took_ms=5))
    assert raised.value.job.state == "running"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("build", ("build", "ok")),
        ("build:ok", ("build", "ok")),
        ("build:any", ("build", "any")),
        ("name:build:failed", ("name:build", "failed")),
        ("name:build", ("name:build", "ok")),
        ("a:b", ("a:b", "ok")),
    ],
)
def test_what_comes_after_is_a_job_and_perhaps_a_condition(text, expected):
    assert calls.after_parts(text) == expected


def test_names_of_jobs_to_wait_for_become_ids():
    call = calls.resolved(["build:any"])
    next(call)

    (after,) = ended_with(call, ok(a_view()))
    assert (after.job, after.when) == (a_view().id, "any")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"jobs": 7}', b"\xff\xfe", b"[" * 100_000, b"<html>"]
)
def test_an_answer_of_another_shape_is_a_bad_answer(body):
    call = calls.jobs()
    next(call)

    with pytest.raises(BadAnswer):
        call.send(Response(200, body))


@given(body=st.binary(max_size=200), status=st.integers(100, 599))
def test_any_answer_ends_in_a_value_or_an_error_of_ours(body, status):
    call = calls.jobs()
    next(call)

    with pytest.raises((StopIteration, GridError)) as ended:
        call.send(Response(status, body))
    assert isinstance(ended.value, GridError) or isinstance(ended.value.value, Jobs)


def told(error: GridError) -> GridError:
    facts = {key: value for key, value in vars(error).items() if key not in ("message", "remedy")}
    problem = Problem(error=type(error).__name__, message=error.message, remedy=error.remedy,
                      exit_code=error.exit_code, facts=facts)  # fmt: skip
    return problem_of(Response(400, msgspec.json.encode(problem)))


@pytest.mark.parametrize(
    "error",
    [
        NotFound("job", "build"),
        Ambiguous("job", "ab", matches=["abc", "abd"]),
        NeverFits("train", shortfall=[("cpu_milli", 9_000, 4_000)]),
        BadValue("x", expected="a number", remedy="Write one"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_problem_becomes_the_error_it_was(error):
    back = told(error)

    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert str(back) == str(error)
    assert back.exit_code == error.exit_code


@pytest.mark.parametrize("name", ["FromTheFuture", "shown", "Sequence", "__name__", ""])
def test_a_name_that_is_no_error_of_ours_is_a_plain_one_with_its_exit_code(name):
    problem = Problem(
        error=name, message="m", remedy="r", exit_code=5, facts={"a": [1, [2]], "b c": 1}
    )
    back = error_of(problem)

    assert type(back) is errors.GridError
    assert (back.exit_code, back.a, back.error) == (5, (1, (2,)), name)
    assert "b c" not in vars(back)
