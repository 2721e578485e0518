import pytest

from distributed_grid.cli import outcome, text
from tests.agent_stand_in import STARTED_MS, a_view, an_array


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("succeeded", 0, 0),
        ("failed", 7, 7),
        ("failed", 124, 124),
        ("failed", 126, 126),
        ("failed", 127, 127),
        ("failed", 137, 137),
        ("failed", None, 125),
        ("cancelled", None, 125),
        ("cancelled", 143, 125),
        ("lost", None, 125),
        ("skipped", None, 125),
        ("running", None, 124),
    ],
)
def test_the_exit_code_is_the_jobs_own_or_says_whose_fault_it_was(state, code, expected):
    assert outcome.exit_code(a_view(state=state, exit_code=code)) == expected


@pytest.mark.parametrize(
    ("code", "is_told"),
    [(1, False), (7, False), (124, True), (126, True), (127, True), (137, True)],
)
def test_a_reason_is_told_only_where_the_code_was_not_the_jobs_own_choice(code, is_told):
    reason = outcome.reason(a_view(state="failed", exit_code=code, reason="why"))

    assert (reason is not None) == is_told


@pytest.mark.parametrize("state", ["cancelled", "lost", "skipped"])
def test_what_grid_did_is_always_told(state):
    assert outcome.reason(a_view(state=state, exit_code=None, reason="because")).endswith(
        f"{state}: because"
    )


def test_an_array_is_summed_up_with_its_first_failures():
    assert outcome.reason(an_array()).endswith(
        "2 of 3 succeeded, 1 failed, first failures: 1 (exit 9)"
    )
    assert outcome.exit_code(an_array()) == 1


def test_times_and_amounts_are_written_as_people_do():
    assert text.span(STARTED_MS, STARTED_MS + 1_500) == "1.5s"
    assert text.span(STARTED_MS, STARTED_MS + 61_900) == "1m1s"
    assert text.span(None, STARTED_MS) == text.span(2, 1) == text.moment(None) == "-"
    assert text.wants(a_view(gpu_milli=2_000)) == "2 cores, 1 GiB, 2 GPUs"
    assert text.wants(a_view(cpu_milli=1_000, memory_bytes=0, gpu_milli=500)) == "1 core, 0.5 GPU"
    assert text.amount("memory_bytes", 1 << 30) == "1 GiB"
    assert text.amount("custom.tpu", 1_500) == text.amount("cpu_milli", 1_500) == "1.5"
    assert (text.resource("cpu_milli"), text.resource("custom.tpu")) == ("cores", "tpu")
