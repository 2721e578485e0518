import msgspec
import pytest

from distributed_grid.client.exchange import BadAnswer, End, Head
from distributed_grid.client.streams import EVENT_BYTES_MAX, Events, Output
from distributed_grid.errors import NotFound
from distributed_grid.wire.api import Event, Problem


def an_event(number: int) -> bytes:
    event = Event(number=number, at_ms=1, name="job.ended")
    return b"id: %d\nevent: job.ended\ndata: %s\n\n" % (number, msgspec.json.encode(event))


def test_output_goes_on_where_it_was_after_the_connection_was_lost():
    output = Output("build", stream="stderr", index=3)
    assert output.feed([Head(200), b"ab", b"c"]) == [b"ab", b"c"]
    output.begin_again()

    assert (
        output.request().target == "/v1/jobs/build/logs?stream=stderr&index=3&follow=true&offset=3"
    )
    assert output.feed([Head(200), b"d", End()]) == [b"d"]
    assert output.is_over


def test_a_stream_that_is_refused_raises_the_error():
    problem = Problem(error="NotFound", message="no", remedy="r", exit_code=3, facts={"name": "x"})
    body = msgspec.json.encode(problem)

    with pytest.raises(NotFound) as raised:
        Output("x", stream="stdout").feed([Head(404), body[:9], body[9:], End()])
    assert raised.value.name == "x"


def test_events_are_whole_numbered_and_never_twice():
    events, data = Events(), b": hello\n\n" + an_event(1) + an_event(2)
    found = events.feed([Head(200), data[:20], data[20:50], data[50:]])

    assert [event.number for event in found] == [1, 2]
    assert events.request().target == "/v1/events?after=2"


def test_half_an_event_is_forgotten_with_its_connection():
    events = Events(after=0)
    assert events.request().target == "/v1/events?after=0"
    events.feed([Head(200), an_event(1)[:10]])
    events.begin_again()

    assert [event.number for event in events.feed([Head(200), an_event(1)])] == [1]


@pytest.mark.parametrize("data", [b"data: {]\n\n", b"data: 7\n\n", b"data: \xff\n\n"])
def test_an_event_that_cannot_be_read_is_a_bad_answer(data):
    with pytest.raises(BadAnswer):
        Events().feed([Head(200), data])


def test_an_event_without_end_is_a_bad_answer():
    with pytest.raises(BadAnswer, match="more than"):
        Events().feed([Head(200), b"x" * (EVENT_BYTES_MAX + 1)])
