"""Indices of an array that are a list of ranges."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.model.indices import Indices, parts_of, written
from distributed_grid.model.job import Array

SOME = ((27, 28, 1), (47, 48, 1), (60, 70, 1))
rising = st.sets(st.integers(0, 300), min_size=1).map(sorted)


def test_a_list_is_a_sequence_of_all_its_indices():
    indices = Indices(SOME)

    assert list(indices) == [27, 47, *range(60, 70)]
    assert (len(indices), indices[0], indices[-1], indices[1:3]) == (12, 27, 69, [47, 60])
    assert (indices.index(47), indices.index(69)) == (1, 11)


@pytest.mark.parametrize("stranger", [0, 28, 59, 70, "27"])
def test_what_is_between_the_ranges_is_no_index(stranger):
    assert stranger not in Indices(SOME)


@pytest.mark.parametrize("stranger", [0, 28, 70])
def test_what_is_no_index_has_no_place(stranger):
    with pytest.raises(ValueError, match="is not in range"):
        Indices(SOME).index(stranger)


def test_beyond_the_last_is_nothing():
    with pytest.raises(IndexError):
        Indices(SOME)[12]


@given(rising)
def test_any_indices_become_ranges_and_back(indices):
    array = Array(parts=parts_of(indices))

    assert list(array.indices) == indices
    assert [array.indices[array.indices.index(one)] for one in indices] == indices


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([27, 47, *range(60, 70)], "27,47,60-69"),
        ([0, 2, 4, 6, 9], "0-6:2,9"),
        ([1, 100, 101, 102], "1,100-102"),
        ([5], "5"),
        ([5, 9], "5,9"),
        ([], ""),
    ],
)
def test_indices_are_written_as_people_write_them(indices, text):
    assert written(parts_of(indices)) == text


@pytest.mark.parametrize(
    "parts",
    [(), ((3, 3, 1),), ((0, 9, 0),), ((5, 9, 1), (0, 3, 1)), ((0, 5, 1), (4, 9, 1)), ((-1, 3, 1),)],
)
def test_ranges_that_do_not_rise_are_refused_wherever_they_come_from(parts):
    with pytest.raises(msgspec.ValidationError, match=r"[Ee]xpected"):
        msgspec.json.decode(msgspec.json.encode({"parts": parts}), type=Array)


def test_members_of_before_cannot_read_a_list_and_so_take_no_such_job_over():
    class Before(msgspec.Struct):
        start: int
        stop: int
        step: int = 1
        width: int = 0

    body = msgspec.msgpack.encode(Array(parts=SOME))

    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(body, type=Before)
    assert msgspec.msgpack.decode(body, type=Array) == Array(parts=SOME)
