"""What a stranger may not put into a job or a booking about importance, dates and names."""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model.booking import Booking
from distributed_grid.model.job import Preempt
from distributed_grid.model.resources import Request
from distributed_grid.web.admission import MOMENT_MS_MAX, admit, admit_booking
from tests.node_world import a_job


def a_booking(**fields) -> Booking:
    usual = dict(name="lecture", request=Request(cpu_milli=1), from_ms=1, until_ms=2)
    return Booking(**{**usual, **fields})


def test_a_job_of_ours_is_admitted():
    how = Preempt(signal=64, grace_ms=0, command=("sh", "-c", "save"))

    admit(a_job("one", project="vision", booking="b", start_ms=1, deadline_ms=2, preempt=how))
    admit_booking(a_booking(user="ada", project="vision"))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"project": "a\nb"}, "project"),
        ({"booking": "x" * 254}, "booking"),
        ({"start_ms": -1}, "start_ms"),
        ({"deadline_ms": MOMENT_MS_MAX + 1}, "deadline_ms"),
        ({"preempt": Preempt(signal=0)}, "preempt.signal"),
        ({"preempt": Preempt(signal=65)}, "preempt.signal"),
        ({"preempt": Preempt(grace_ms=-1)}, "preempt.grace_ms"),
        ({"preempt": Preempt(command=("a\0b",))}, "preempt.command"),
    ],
)
def test_a_job_that_no_client_would_send_is_refused_at_its_field(fields, what):
    with pytest.raises(BadValue) as caught:
        admit(a_job("one", **fields))

    assert caught.value.field == what


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"user": "a\nb"}, "user"),
        ({"from_ms": -1}, "from_ms"),
        ({"until_ms": MOMENT_MS_MAX + 1}, "until_ms"),
    ],
)
def test_a_booking_that_no_client_would_send_is_refused_at_its_field(fields, what):
    with pytest.raises(BadValue) as caught:
        admit_booking(a_booking(**fields))

    assert caught.value.field == what
