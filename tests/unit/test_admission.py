"""What a stranger may not put into a job or a booking about importance, dates and names."""

import msgspec
import pytest

from distributed_grid.errors import BadValue, UnknownName
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.booking import Booking
from distributed_grid.model.job import Array, Preempt, Where, Work
from distributed_grid.model.resources import Request
from distributed_grid.web.admission import admit, admit_booking
from distributed_grid.web.new_jobs import new_jobs
from tests.node_world import a_job


def a_booking(**fields) -> Booking:
    usual = dict(name="lecture", request=Request(cpu_milli=1), from_ms=1, until_ms=2)
    return Booking(**{**usual, **fields})


def test_a_job_of_ours_is_admitted():
    how = Preempt(signal=64, grace_ms=0, command=("sh", "-c", "save"))

    admit(a_job("one", project="vision", booking="b", start_ms=1, deadline_ms=2, preempt=how))
    admit(a_job("two", work=Work(argv=("true",), cwd="/", log="/" + "a" * 4_095)))
    admit_booking(a_booking(user="ada", project="vision"))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"project": "a\nb"}, "project"),
        ({"booking": "x" * 254}, "booking"),
        ({"preempt": Preempt(command=("a\0b",))}, "preempt.command"),
        ({"id": "../one"}, "id"),
        ({"work": None}, "work"),
        ({"work": Work(argv=("",), cwd="/")}, "work.argv"),
        ({"work": Work(argv=("a\0b",), cwd="/")}, "work.argv"),
        ({"work": Work(argv=("true",), cwd="srv")}, "work.cwd"),
        ({"work": Work(argv=("true",), cwd="/", image="x" * 1_025)}, "work.image"),
        ({"work": Work(argv=("true",), cwd="/", env={"": "b"})}, "work.env"),
        ({"work": Work(argv=("true",), cwd="/", env={"a=": "b"})}, "work.env"),
        ({"work": Work(argv=("true",), cwd="/", env={"a\0": "b", "c": "d"})}, "work.env"),
        ({"work": Work(argv=("true",), cwd="/", env={"a": "b\0"})}, "work.env"),
        ({"user": "ada@a\nb"}, "user"),
        ({"name": ""}, "name"),
        ({"array": Array(start=2, stop=2)}, "array"),
        ({"array": Array(start=0, stop=10_000_001)}, "array"),
        ({"origin": Origin(home="a", job="b", epoch=Epoch(), attempt="c")}, "origin"),
        ({"gang": 2, "array": Array(start=0, stop=2)}, "gang"),
        ({"require": Where(nodes=("n",) * 10_001)}, "require"),
        ({"avoid": Where(nodes=("",))}, "avoid"),
        ({"prefer": Where(labels=(("x" * 254, "v"),))}, "prefer"),
        ({"avoid_if_possible": Where(jobs=("x" * 254,))}, "avoid_if_possible"),
        ({"work": Work(argv=("true",), cwd="/", log="out")}, "work.log"),
        ({"work": Work(argv=("true",), cwd="/", log="/a\0b")}, "work.log"),
        ({"outputs": ("/etc/*",)}, "outputs"),
        ({"outputs": ("a/../../b",)}, "outputs"),
        ({"outputs": ("a\0",)}, "outputs"),
        ({"outputs": (".",)}, "outputs"),
        ({"outputs": ("**", ".//./")}, "outputs"),
        ({"outputs": ("",)}, "outputs"),
    ],
)
def test_a_job_that_no_client_would_send_is_refused_at_its_field(fields, what):
    with pytest.raises(BadValue) as caught:
        admit(msgspec.structs.replace(a_job("one"), **fields))

    assert caught.value.field == what


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"user": "a\nb"}, "user"),
        ({"project": "x" * 254}, "project"),
    ],
)
def test_a_booking_that_no_client_would_send_is_refused_at_its_field(fields, what):
    with pytest.raises(BadValue) as caught:
        admit_booking(a_booking(**fields))

    assert caught.value.field == what


def test_a_policy_that_nobody_knows_is_told_with_those_there_are():
    admit(a_job("one", policy="best-fit"))
    with pytest.raises(UnknownName, match="no policy named") as caught:
        admit(a_job("one", policy="BestFti"))

    assert "BestFit" in caught.value.remedy


def test_what_a_job_over_http_changes_comes_back_if_it_has_a_directory():
    said = ({"cwd": "/srv"}, {}, {"cwd": "/srv", "brings_changes": False})
    specs = [new_jobs({"argv": ["true"], **more})[0] for more in said]

    assert [spec.brings_changes for spec in specs] == [True, False, False]
