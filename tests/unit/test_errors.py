"""Does every error say what happened and what to do, in one safe line?"""

import inspect
from typing import get_args

import pytest

from distributed_grid import errors
from distributed_grid.errors import (
    AgentLeft,
    AgentRuns,
    Ambiguous,
    BadInput,
    BadTicket,
    BadValue,
    BookingConflict,
    BrokenPlugin,
    CallFailed,
    Closed,
    Conflict,
    GridError,
    IdentityMoved,
    MapEnded,
    MeshRefused,
    MeshUnreachable,
    NeverFits,
    NoAgent,
    NotEnough,
    NotFound,
    NotInMesh,
    NotPermitted,
    NotPicklable,
    Overloaded,
    TooFewCopies,
    UnknownName,
    WorkerDied,
    counted,
    shown,
)
from distributed_grid.refusals import REFUSALS
from distributed_grid.wire.mesh import Reason

ONE_OF_EACH = [
    GridError("it broke", remedy="Mend it"),
    BadValue("x", expected="a number", remedy="Write it like 4"),
    BadInput("a.yaml", path="$[0].id", problem="is no id", remedy="Use the whole id"),
    UnknownName("policy", "Best", known=["BestFit", "Spread"]),
    NotEnough("cpu_milli", wanted=4_000, has=500),
    BrokenPlugin("policy", "quiet", why="ZeroDivisionError()"),
    NoAgent("/s", why="refused"),
    AgentRuns("/d", pid=7),
    NotFound("job", "x"),
    Ambiguous("job", "x", matches=["a", "b"]),
    NeverFits("x", shortfall=[("cpu_milli", 9, 4)]),
    Conflict("job", "x"),
    Overloaded("jobs", most=5),
    NotPermitted("urgent", remedy="Ask the owner"),
    CallFailed(3, why="KeyError", remedy="Mend it"),
    WorkerDied(3, how="signal 9", tries=2),
    NotPicklable(-1, what="function", why="it holds a lock"),
    MapEnded("map:f", why="it was cancelled"),
    BookingConflict("exam", others=["class"], missing=[("cpu_milli", 4_000, 500)]),
    Closed("/s"),
    AgentLeft(),
    NotInMesh(),
    MeshUnreachable("attic", tried=["10.0.0.7:4711"], why="nothing came back"),
    MeshRefused("attic", reason="ticket-expired"),
    BadTicket("cut-off"),
    IdentityMoved("/d", node="5f0c" * 16),
    TooFewCopies(1, wanted=2),
]
CODES = [1, 2, 2, 2, 3, 1, 4, 1, 3, 2, 3, 2, 1, 5]


def test_every_kind_of_error_is_looked_at_here():
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}

    assert {type(error) for error in ONE_OF_EACH} == {k for k in kinds if issubclass(k, GridError)}


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_an_error_is_a_message_and_a_remedy_in_one_line(error):
    assert isinstance(error, GridError)
    assert str(error) == f"{error.message}. {error.remedy}."
    assert "\n" not in str(error)
    assert error.remedy


@pytest.mark.parametrize(
    ("error", "code"), list(zip(ONE_OF_EACH[: len(CODES)], CODES, strict=True)), ids=str
)
def test_whose_fault_it_is_shows_in_the_exit_code(error, code):
    assert error.exit_code == code


def test_the_facts_are_fields():
    _, value, bad, unknown, short, broken, *_ = ONE_OF_EACH

    assert (value.value, value.expected, value.field) == ("x", "a number", "")
    assert (bad.file, bad.path, bad.problem) == ("a.yaml", "$[0].id", "is no id")
    assert (unknown.kind, unknown.name, unknown.known) == ("policy", "Best", ("BestFit", "Spread"))
    assert (short.what, short.wanted, short.has) == ("cpu_milli", 4_000, 500)
    assert (broken.kind, broken.name, broken.why) == ("policy", "quiet", "ZeroDivisionError()")


def test_an_unknown_name_tells_the_known_ones_or_that_there_are_none():
    assert str(UnknownName("node", "x", known=["a", "b"])).endswith("Known: a, b.")
    assert str(UnknownName("node", "x", known=[])).endswith("Known: none.")


def test_a_booking_that_conflicts_says_with_whom_and_by_how_much():
    beside = BookingConflict("exam", others=["a", "b"], missing=[("cpu_milli", 4_000, 1_000)])
    alone = BookingConflict("exam", others=[], missing=[("cpu_milli", 4_000, 1_000)])

    assert "beside a, b (wants 4 cores, left are 1 cores)" in str(beside)
    assert "on this machine" in str(alone)
    assert (beside.exit_code, beside.name, beside.others) == (3, "exam", ("a", "b"))
    assert alone.missing == (("cpu_milli", 4_000, 1_000),)


def test_a_machine_that_does_not_answer_is_told_apart_from_one_that_says_no():
    gone = MeshUnreachable("attic", tried=["10.0.0.7:4711", "10.0.0.8:4711"], why="no answer")
    said_no = MeshRefused("attic", reason="revoked", detail="since May")

    assert "'attic' cannot be reached at 10.0.0.7:4711, 10.0.0.8:4711 (no answer)" in str(gone)
    assert "'attic' cannot be reached. See that it is up" in str(MeshUnreachable("attic"))
    assert "'attic' refuses: the node was removed from the mesh, for good (since May)" in str(
        said_no
    )
    assert (gone.exit_code, said_no.exit_code, NotInMesh().exit_code) == (1, 5, 3)
    assert (gone.tried, said_no.reason) == (("10.0.0.7:4711", "10.0.0.8:4711"), "revoked")


def test_every_reason_to_refuse_has_its_sentence_and_its_remedy():
    assert set(REFUSALS) == set(get_args(Reason))
    assert len({MeshRefused("attic", reason=reason).message for reason in REFUSALS}) == len(
        REFUSALS
    )
    assert "it says 'from tomorrow'" in str(MeshRefused("attic", reason="from tomorrow"))


def test_only_a_policy_can_be_exchanged_for_another():
    assert "choose another" in BrokenPlugin("policy", "quiet", why="").remedy
    assert "choose another" not in BrokenPlugin("filter", "quiet", why="").remedy


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "two\nlines", "a\rb", "\u202eleft", "\udcff"])
def test_no_name_of_a_file_or_a_key_can_write_on_the_terminal(hostile):
    for error in (
        BadInput(hostile, path=f"$.{hostile}", problem="is wrong", remedy="Mend it"),
        UnknownName("node", hostile, known=[hostile]),
        BrokenPlugin("filter", hostile, why=f"Oops({hostile})"),
    ):
        assert str(error).isprintable(), repr(str(error))


def test_a_long_value_is_cut_to_a_piece_of_a_line():
    assert len(shown("x" * 1_000)) == 60
    assert shown("x" * 1_000).endswith("…")
    assert shown("short") == "'short'"
    assert len(str(BadInput("f", path="$" * 999, problem="p", remedy="r"))) < 100
    assert len(str(BrokenPlugin("filter", "f", why="y" * 9_999))) < 400


def test_a_number_too_long_to_be_written_is_described():
    assert shown(10**5_000) == "a number of thousands of digits"


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("cpu_milli", 4_000, "4 cores"),
        ("cpu_milli", 1_500, "1.5 cores"),
        ("cpu_milli", 0, "0 cores"),
        ("cpu_milli", 10_000, "10 cores"),
        ("gpu_milli", 500, "0.5 GPUs"),
        ("memory_bytes", 16 << 30, "16 GiB of memory"),
        ("memory_bytes", 3 << 29, "1.5 GiB of memory"),
        ("storage_bytes", 100, "100 B of storage"),
        ("custom.tpu", 2_000, "2 tpu"),
        ("GPU-5f", 1, "1 GPU-5f"),
    ],
)
def test_an_amount_is_written_as_people_do(what, value, text):
    assert counted(what, value) == text


def test_what_never_fits_is_told_in_the_units_of_people_and_kept_in_ours():
    shortfall = [("cpu_milli", 64_000, 4_000), ("memory_bytes", 1 << 50, 16 << 30)]
    error = NeverFits("x", shortfall=shortfall)

    assert "(wants 64 cores, has 4 cores; wants 1 PiB of memory, has 16 GiB of memory)" in str(
        error
    )
    assert error.shortfall == tuple(shortfall)


def test_many_mistakes_of_a_body_are_told_in_one_line_and_all_as_facts():
    wrong = tuple({"path": f"jobs[{n}]", "expected": "object", "got": "7"} for n in range(7))
    error = BadValue("7", expected="jobs[0]: object", remedy="Look", errors=wrong)

    assert error.message.startswith("jobs[0]: expected object, got 7; jobs[1]: ")
    assert error.message.endswith("jobs[4]: expected object, got 7; and 2 more")
    assert error.errors == wrong
