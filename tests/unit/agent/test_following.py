"""Following output while it is cut, and while another try takes its place."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from distributed_grid.agent.logs import output_name, read_output
from distributed_grid.edges.runner.output import Output
from distributed_grid.errors import BadValue
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.job import Array
from distributed_grid.wire.cut_output import Span, head, marker_name, older_name, span_of
from tests.node_world import a_job

CHUNK = Origin(home="a", job="b", epoch=Epoch(), attempt="c", indices=(5, 7))
HALF = 1_000
LINE_BYTES = 20


class Job:
    """One that writes when it is told to, and a follower who looks when he is told to."""

    def __init__(self, folder: Path, *, index: int = -1) -> None:
        self.index = index
        self.path = folder / ("stdout" if index < 0 else f"{index}.stdout")
        self.folder = folder
        self.has_ended = False
        self.output = self._output()
        self.written = bytearray()

    def _output(self) -> Output:
        is_chunk = self.index >= 0
        return Output(str(self.folder), attempt="a", is_chunk=is_chunk, bytes_max=2 * HALF)

    def begin(self) -> None:
        """A process starts, which keeps its file open in append mode."""
        self.output = self._output()
        out, err = self.output.open()
        os.close(err)
        self.file = out

    def write(self, count: int) -> None:
        """So many bytes, of lines that say twice where they stand: torn ones can be told."""
        places = range(len(self.written), len(self.written) + count, LINE_BYTES)
        lines = b"".join(b"%09d %09d\n" % (place, place) for place in places)
        os.write(self.file, lines)
        self.written += lines

    def look(self) -> None:
        """As the keeper does."""
        self.output.look(index=max(self.index, 0))

    def end(self) -> None:
        os.close(self.file)
        self.file = -1
        self.output.finish(index=max(self.index, 0))

    @property
    def marker(self) -> Path:
        return Path(marker_name(str(self.path)))

    @property
    def older(self) -> Span:
        data = Path(older_name(str(self.path))).read_bytes()
        return span_of(data, len(data))

    def mark(self) -> None:
        """A cut is under way."""
        self.marker.touch()

    async def follow(self, *turns, offset: int = 0) -> bytes:
        """What a follower hears; between two looks of his, one of the turns happens."""
        waiting = list(turns)

        async def changed(_: float) -> None:
            if waiting:
                waiting.pop(0)()
            else:
                self.has_ended = True

        self.heard = bytearray()
        async for part in read_output(
            str(self.path),
            offset=offset,
            follow=True,
            has_ended=lambda: self.has_ended,
            changed=changed,
        ):
            self.heard += part
        return bytes(self.heard)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    made.begin()
    yield made
    if made.file >= 0:
        os.close(made.file)


async def test_a_follower_misses_nothing_when_the_output_is_cut_between_two_looks(job):
    def flood() -> None:
        job.write(800)
        job.look()  # What he has not seen is in the older half now.
        job.write(300)

    heard = await job.follow(lambda: job.write(700), flood, lambda: job.write(10), job.end)

    assert heard == job.written


async def test_a_file_that_grew_beyond_where_he_was_is_not_taken_for_the_old_one(job):
    def flood() -> None:
        job.write(600)
        job.look()
        job.write(900)  # More than there was when he looked.

    heard = await job.follow(lambda: job.write(500), flood, job.end)

    assert heard == job.written


async def test_every_cut_can_be_followed_through(job):
    def flood() -> None:
        job.write(800)
        job.look()

    heard = await job.follow(*[flood] * 20, job.end)

    assert heard == job.written


async def test_two_cuts_between_two_looks_cost_the_bytes_that_are_gone_and_no_others(job):
    def flood() -> None:
        for _ in range(2):
            job.write(3_000)
            job.look()

    heard = await job.follow(lambda: job.write(500), flood, lambda: job.write(100), job.end)
    lost = len(job.written) - len(heard)

    assert heard[:500] == job.written[:500]
    assert heard[500:] == job.written[500 + lost :]
    assert 0 < lost <= job.output.dropped_bytes


async def test_whatever_the_moment_nothing_comes_twice_or_torn(job):
    """A writer and a cutter at full speed beside the follower: numbers only ever rise."""

    def flood() -> None:
        for _ in range(300):
            job.write(400)
            job.look()
        job.end()
        job.has_ended = True

    async def look_again(_: float) -> None:
        await asyncio.sleep(0)

    writer = threading.Thread(target=flood)
    writer.start()
    heard = b""
    async for part in read_output(
        str(job.path),
        offset=0,
        follow=True,
        has_ended=lambda: job.has_ended,
        changed=look_again,
    ):
        heard += part
    writer.join()
    twice = [line.split(b" ") for line in heard.split(b"\n") if len(line) == LINE_BYTES - 1]
    places = [int(words[0]) for words in twice if words[:1] == words[1:]]

    assert places == sorted(set(places))
    assert heard.endswith(job.written[-300:])


async def test_in_the_middle_of_a_cut_he_waits(job):
    def begin_cut() -> None:
        job.write(900)
        job.marker.write_bytes(head(0) + job.written)
        os.truncate(job.path, 0)

    def end_cut() -> None:
        assert job.heard == job.written[:500]
        job.marker.rename(older_name(str(job.path)))
        job.write(100)

    assert await job.follow(lambda: job.write(500), begin_cut, end_cut) == job.written


async def test_what_is_read_before_a_cut_ends_is_not_believed(job):
    def begin_cut() -> None:
        job.mark()
        job.write(900)

    def end_cut() -> None:
        assert job.heard == job.written[:500]
        job.marker.unlink()

    assert await job.follow(lambda: job.write(500), begin_cut, end_cut) == job.written


async def test_a_mark_that_a_dead_keeper_left_hides_nothing_in_the_end(job):
    job.write(500)
    job.mark()
    job.has_ended = True

    assert await job.follow() == job.written


async def test_who_comes_later_gets_what_is_kept_and_who_comes_back_goes_on(job):
    job.write(1_500)
    job.look()
    job.write(300)
    older = job.older
    job.has_ended = True

    assert await job.follow() == job.written[older.start :]
    assert await job.follow(offset=1_400) == job.written[1_400:]


async def test_nothing_kept_for_lack_of_room_is_told_and_the_rest_follows(job):
    def full() -> None:
        job.write(1_500)
        job.marker.mkdir()  # So that the copy cannot be written.
        job.look()
        job.marker.rmdir()
        job.write(300)

    heard = await job.follow(lambda: job.write(700), full, job.end)

    assert heard == job.written[:700] + job.written[-300:]
    assert job.output.dropped_bytes == 2_200


async def test_the_bound_holds_for_the_files_together(job):
    for _ in range(10):
        job.write(5_000)
        job.look()
    job.end()
    older = job.older

    assert older.end - older.start + job.path.stat().st_size <= 2 * HALF


async def test_another_try_of_an_index_is_shown_from_its_start(tmp_path):
    job = Job(tmp_path, index=5)
    job.begin()
    job.write(100)
    job.look()

    def again() -> None:
        job.write(50)  # Unseen so far, and then the file has another's name.
        job.end()
        job.begin()
        job.write(70)
        job.end()

    assert await job.follow(again) == job.written


async def test_another_try_after_one_that_was_cut_is_shown_from_its_start(tmp_path):
    job = Job(tmp_path, index=5)
    job.begin()
    job.write(1_200)
    job.look()
    job.write(100)

    def again() -> None:
        job.end()
        job.begin()
        job.write(80)
        job.end()

    kept = job.written[325:]  # Seven eighths of the half, and what came after.
    assert await job.follow(again) == kept + job.written[1_300:]


async def test_of_an_index_the_last_try_is_kept_also_if_it_is_silent(tmp_path):
    job = Job(tmp_path, index=5)
    for count in (2_500, 0):
        job.begin()
        job.write(count)
        job.end()
    job.has_ended = True

    assert await job.follow() == b""
    assert not list(tmp_path.glob("5.*"))


@pytest.mark.parametrize(
    ("spec", "index", "name"),
    [
        (a_job("plain"), -1, "stdout"),
        (a_job("array", array=Array(start=0, stop=4)), 3, "3.stdout"),
        (a_job("guest", origin=CHUNK), 7, "7.stdout"),
        (a_job("guest", origin=msgspec.structs.replace(CHUNK, indices=())), -1, "stdout"),
    ],
)
def test_the_output_of_an_index_has_a_file_of_its_own_also_in_a_chunk_of_another_node(
    spec, index, name
):
    assert output_name(spec, "stdout", index) == name


@pytest.mark.parametrize(
    ("spec", "index", "says"),
    [
        (a_job("plain"), 3, "no index"),
        (a_job("array", array=Array(start=0, stop=4)), 4, "an index of the array"),
        (a_job("array", array=Array(start=0, stop=4)), -1, "an index of the array"),
        (a_job("guest", origin=CHUNK), 6, "an index of the array"),
    ],
)
def test_an_index_that_is_not_there_is_refused(spec, index, says):
    with pytest.raises(BadValue, match=says):
        output_name(spec, "stdout", index)
