import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.model.ids import job_id_of
from distributed_grid.wire import frames
from distributed_grid.wire.frames import BrokenFrame, Unframer, framed
from distributed_grid.wire.keeper import (
    Acknowledge,
    Adopt,
    Adopted,
    Deadline,
    Ended,
    FromKeeper,
    Hello,
    Quit,
    Run,
    Started,
    Stop,
    StopIndex,
    ToKeeper,
    Usage,
    Withdraw,
)


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    bodies: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(framed, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    unframer, found = Unframer(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += unframer.feed(stream[start:end])

    assert found == bodies


def test_a_frame_that_is_too_large_is_neither_written_nor_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 10)
    with pytest.raises(BrokenFrame) as written:
        framed(b"x" * 11)
    with pytest.raises(BrokenFrame) as read:
        Unframer().feed((11).to_bytes(4, "big"))

    assert (written.value.length, read.value.length) == (11, 11)
    assert len(framed(b"x" * 10)) == 14


TO_KEEPER = [
    Run(
        attempt="a", job=job_id_of("x"), argv=("true",), env={"A": "b"}, cwd="/",
        output_dir="/o", scratch_dir="/s", indices=(1, 2), lease="l",
    ),
    Stop(attempt="a"),
    StopIndex(attempt="a", index=3),
    Withdraw(attempt="a"),
    Deadline(attempt="a", until_boot_us=1),
    Acknowledge(upto=9),
    Quit(stop_jobs=True),
]  # fmt: skip
FROM_KEEPER = [
    Hello(keeper_id="k", boot_id="b", pid=1, limits={"cpu": "none"}, running=("a", "b"), queued=("b",), suspended=("a",), deadlines={"a": 1}),
    Started(number=1, attempt="a", pid=2, at_ms=3),
    Ended(
        number=2, attempt="a", how="exited", code=0, started_ms=1, ended_ms=2, usage=Usage(user_us=1)
    ),
]  # fmt: skip


@pytest.mark.parametrize("message", TO_KEEPER, ids=lambda message: type(message).__name__)
def test_what_is_said_to_the_keeper_survives_the_line(message: ToKeeper) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=ToKeeper) == message


@pytest.mark.parametrize("message", FROM_KEEPER, ids=lambda message: type(message).__name__)
def test_what_the_keeper_says_survives_the_line(message: FromKeeper) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=FromKeeper) == message


def test_question_and_answer_at_the_door_survive_the_line() -> None:
    wish, answer = Adopt(argv=("grid",), env={}), Adopted(keeper_pid=1, refusal="no")

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(wish), type=Adopt) == wish
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Adopted) == answer


def test_a_hello_of_an_older_keeper_is_understood() -> None:
    old = {"type": "hello", "keeper_id": "k", "boot_id": "b", "pid": 1, "limits": {}, "running": []}
    hello = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=FromKeeper)

    assert isinstance(hello, Hello)
    assert (hello.agent_restarts, hello.unacknowledged, hello.queued) == (0, 0, ())
