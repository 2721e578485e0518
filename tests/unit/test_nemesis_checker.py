"""The checker of the nemesis sees each kind of broken promise, and no other."""

from pathlib import Path

import pytest

from tests.nemesis.checker import overlaps, unfinished, wrong_jobs
from tests.nemesis.people import Promise

PROMISE = Promise("a" * 64, "once", "job", "n1", "succeeded", 0, is_kept=True)
UNKEPT = Promise("a" * 64, "once", "job", "n1", "succeeded", 0)


def views(*seen: tuple[str, int | None] | None):
    return {
        f"n{number}": {} if one is None else {PROMISE.id: {"state": one[0], "exit_code": one[1]}}
        for number, one in enumerate(seen)
    }


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (views(("succeeded", 0), ("succeeded", 0)), ""),
        (views(("running", None), ("succeeded", 0)), "STUCK"),
        (views(("succeeded", 0), None), "STUCK"),
        (views(("succeeded", 0), ("failed", 3)), "DISAGREED"),
        (views(("failed", 3), ("failed", 3)), "RESULT"),
        (views(("succeeded", 3), ("succeeded", 3)), "RESULT"),
        (views(("lost", None), ("lost", None)), "RESULT"),
    ],
)
def test_a_job_that_was_promised_ends_everywhere_alike_and_as_it_had_to(seen, word):
    wrong = [what for _, what in wrong_jobs([PROMISE], seen)]

    assert [what.partition(":")[0] for what in wrong] == ([word] if word else [])
    assert bool(unfinished([PROMISE], seen)) == (word == "STUCK")


@pytest.mark.parametrize(
    "seen", [views(None, None), views(("cancelled", None), ("cancelled", None))]
)
def test_one_that_was_refused_need_not_have_been(seen):
    assert not list(wrong_jobs([UNKEPT], seen))
    assert not unfinished([UNKEPT], seen)


def written(directory: Path, *lines: str) -> Path:
    (directory / "job").write_text("".join(f"{line}\n" for line in lines))
    return directory


def found(directory: Path, *paused: tuple[str, float, float]) -> int:
    return len(list(overlaps([PROMISE], directory, paused)))


def test_two_processes_that_both_do_something_in_one_span_are_seen(tmp_path):
    runs = written(
        tmp_path, "begin 1 n1 10.0", "begin 2 n2 11.0", "step 1 n1 12.0", "end 2 n2 13.0"
    )

    assert found(runs)


def test_one_after_the_other_is_as_it_should_be(tmp_path):
    runs = written(
        tmp_path, "begin 1 n1 10.0", "step 1 n1 11.0", "begin 2 n2 11.5", "end 2 n2 13.0"
    )

    assert not found(runs)


def test_what_stood_still_and_is_ended_at_once_when_it_goes_on_is_none(tmp_path):
    words = ("begin 1 n1 10.0", "step 1 n1 11.0", "begin 2 n2 20.0", "step 2 n2 30.5")
    runs = written(tmp_path, *words, "step 1 n1 30.2")

    assert not found(runs, ("n1", 11.1, 30.0))
    assert found(runs), "it did not stand still"
    assert found(runs, ("n1", 11.1, 28.0)), "it went on for too long"
    assert found(runs, ("n3", 11.1, 30.0)), "another machine did"
