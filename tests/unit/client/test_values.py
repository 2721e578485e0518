"""Large values of calls: put aside by their content, and let go when no call needs them."""

import numpy as np
import pytest

from distributed_grid.client import pickling, values
from distributed_grid.client.pickling import packed, unpacked, values_of
from distributed_grid.client.values import LargeValues
from distributed_grid.errors import NotPicklable
from distributed_grid.wire.maps import ASIDE_BYTES_MIN

MIB = 1 << 20


@pytest.fixture
def kept(tmp_path, monkeypatch):
    made = LargeValues(str(tmp_path / "values"))
    folder = tmp_path / "values"
    monkeypatch.setattr(
        pickling, "fetched", lambda name: bytearray((folder / name / "data").read_bytes())
    )
    return made


def names(tmp_path):
    return {path.parent.name for path in (tmp_path / "values").glob("*/data")}


def an_array(letter):
    return np.frombuffer(bytearray(letter * 2 * MIB), dtype=np.uint8)


def a_call(kept, letter):
    data = packed([an_array(letter)], what="item", index=0, put=kept.put)
    kept.hold(data)
    return data


def test_a_large_buffer_is_put_aside_once_and_comes_back(kept, tmp_path):
    value = an_array(b"a")
    data = packed([value, "small", value], what="item", index=0, put=kept.put)
    again = packed({"other": value[:3], "same": value}, what="item", index=0, put=kept.put)

    assert len(data) + len(again) < 1_000
    assert len(names(tmp_path)) == 1
    first, small, second = unpacked(data)
    assert small == "small"
    assert first is second
    assert (first == value).all()
    first[0] = 0  # It is the reader's own.
    found = unpacked(again)
    assert found["other"].tolist() == list(b"aaa")
    assert (found["same"] == value).all()


def test_an_array_that_is_not_in_one_piece_travels_all_the_same(kept):
    value = an_array(b"a").reshape(2, -1)[:, ::2]

    assert (unpacked(packed(value, what="item", index=0, put=kept.put)) == value).all()


def test_what_is_small_stays_in(kept, tmp_path):
    value = np.zeros(ASIDE_BYTES_MIN - 1, dtype=np.uint8)
    data = packed(value, what="item", index=0, put=kept.put)

    assert (values_of(data), names(tmp_path)) == ([], set())
    assert len(unpacked(data)) == len(value)


def test_a_large_pickle_without_buffers_is_put_aside_whole(kept, tmp_path):
    value = ["x" * 1_000 + str(n) for n in range(10_000)]
    data = packed(value, what="item", index=0, put=kept.put)

    assert len(data) < 1_000
    assert len(names(tmp_path)) == 1
    assert unpacked(data) == value


def test_a_value_may_need_what_another_one_put_aside(kept):
    data = a_call(kept, b"a")
    outer = pickling.beside(packed((data, 1), what="argument", index=0), values_of(data))

    assert values_of(outer) == values_of(data)
    assert (unpacked(unpacked(outer)[0])[0] == an_array(b"a")).all()


def test_those_that_no_call_needs_go_the_oldest_first(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(values, "IDLE_BYTES", 5 * MIB)
    calls = [a_call(kept, letter) for letter in (b"a", b"b", b"c", b"d")]
    assert len(names(tmp_path)) == 4
    for call in (calls[1], calls[0], calls[2]):
        kept.release(call)

    # Of three that nobody needs two fit; the fourth is needed.
    assert names(tmp_path) == {name for call in calls[1:] for name in values_of(call)}
    a_call(kept, b"a")
    assert len(names(tmp_path)) == 4


def test_a_function_holds_its_values_until_the_next_one(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(values, "IDLE_BYTES", 0)
    first, second = (
        packed([an_array(letter)], what="function", index=-1, put=kept.put)
        for letter in (b"a", b"b")
    )
    kept.hold_function(first)
    kept.hold_function(second)

    assert names(tmp_path) == set(values_of(second))


def test_no_more_is_sent_ahead_than_there_is_room_for(kept, monkeypatch):
    monkeypatch.setattr(values, "NEEDED_BYTES", 3 * MIB)
    first = a_call(kept, b"a")
    assert kept.has_room
    a_call(kept, b"b")
    assert not kept.has_room
    kept.release(first)

    assert kept.has_room


def test_a_disk_that_takes_nothing_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    full = LargeValues(str(tmp_path / "file" / "values"))

    with pytest.raises(NotPicklable, match=r"it is large, and cannot be put aside: .*Not a dir"):
        packed([an_array(b"a")], what="item", index=3, put=full.put)
