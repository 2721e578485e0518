"""Records of a job become one, in any order, whoever joins them; nothing they knew is lost."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from distributed_grid.kernel.across.record import JobRecord, joined, normal, state_of
from distributed_grid.kernel.across.record_bytes import decode, encode
from distributed_grid.kernel.across.record_jobs import summary
from distributed_grid.kernel.across.record_parts import (
    AttemptNote,
    Result,
    Standing,
    fields_of,
    note_of,
)
from distributed_grid.kernel.across.record_parts import encode as encode_part
from distributed_grid.kernel.across.record_runs import Run, covers
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.job import Array
from distributed_grid.wire.api import ENDED
from tests.node_world import a_job

SIZE = 6
NODES = ["a", "b", "c"]
STATES = ["named", "begun", "lost", "ended", "dreaming"]
PLAIN, ARRAY = a_job("plain"), a_job("array", array=Array(start=0, stop=SIZE))


class Dice(random.Random):
    """Arbitrary parts of records; drawn by hypothesis one by one they would take far longer."""

    def epoch(self) -> Epoch:
        return Epoch(self.randrange(3), self.choice(NODES))

    def fence(self) -> Fence:
        return Fence(self.epoch(), self.randrange(4))

    def part(self, part) -> bytes:
        """A part, now and then with fields of a newer version."""
        return encode_part({**fields_of(encode_part(part)), **self.unknown()})

    def unknown(self) -> dict[str, int]:
        return {name: self.randrange(3) for name in ("colour", "taste") if self.random() < 0.2}

    def standing(self) -> bytes:
        names = tuple(self.sample(NODES, self.randrange(3)))
        word = Standing(name="job", submitted_ms=1, guardians=names, failures=self.randrange(3))
        return self.part(word)

    def result(self) -> bytes:
        return self.part(
            Result(
                state=self.choice([*sorted(ENDED), "evaporated"]),
                epoch=self.epoch(),
                number=self.randrange(3),
                node=self.choice(NODES),
            )
        )

    def note(self, *, is_array: bool) -> tuple[str, bytes]:
        """An attempt's id stands for its identity: 128 random bits."""
        number, state = self.randrange(6), self.choice(STATES)
        note = AttemptNote(
            number=number,
            host=NODES[number % 3],
            epoch=Epoch(number % 2, "a"),
            positions=((number, min(number + 2, SIZE)),) if is_array else (),
            state=state,
            saved=f"{number:064x}" if state == "ended" else "",  # A fact, as the end is.
            at=self.fence(),
            exit_code=self.choice([None, 0, 1]),
        )
        return f"attempt-{number}", self.part(note)

    def run(self, at: int) -> Run:
        number = self.randrange(4)
        attempt = f"attempt-{number}" if number else ""
        return Run(at, at + 1, self.randint(1, 3), attempt, Epoch(0, "a"), number, "a")

    def line(self) -> tuple[int, int, str, str]:
        what = self.choice(["submitted", "granted", "running", "failed"])
        return self.randrange(4), self.randrange(3), what, self.choice(["", "x"])

    def record(self, spec) -> JobRecord:
        is_array, some = spec is ARRAY, self.randrange
        results = tuple(self.result() for _ in range(self.choice([0, 0, 1, 2, 6])))
        record = JobRecord(
            job=spec.id,
            version=self.fence(),
            standing=self.standing(),
            spec=self.choice([b"", self.part(spec)]) if results else self.part(spec),
            cancel=self.random() < 0.3,
            holders=tuple(self.sample(NODES, some(3))),
            attempts=dict(self.note(is_array=is_array) for _ in range(some(5))),
            results=results,
            story=tuple(self.line() for _ in range(some(5))),
            size=SIZE if is_array else 0,
            runs=tuple(self.run(at) for at in range(SIZE) if is_array and self.random() < 0.7),
            codes={some(SIZE): some(4) for _ in range(some(4))},
            others={name: encode_part(value) for name, value in self.unknown().items()},
        )
        return normal(record)


def some(count: int):
    """So many records of one job."""

    def rolled(seed: int) -> list[JobRecord]:
        dice = Dice(seed)
        spec = dice.choice([PLAIN, ARRAY])
        return [dice.record(spec) for _ in range(count)]

    return st.integers(0, 2**32).map(rolled)


def records():
    return some(1).map(lambda found: found[0])


@given(records())
def test_a_record_joined_with_itself_is_itself(record):
    assert joined(record, record) == record
    assert normal(record) == record
    assert joined(record, decode(encode(record))) == record


@settings(max_examples=400)
@given(some(2))
def test_it_does_not_matter_who_joins_whom(pair):
    one, other = pair

    assert joined(one, other) == joined(other, one)
    assert encode(joined(one, other)) == encode(joined(other, one))


@settings(max_examples=400)
@given(some(3))
def test_it_does_not_matter_in_which_order_three_meet(three):
    one, two, last = three

    assert joined(joined(one, two), last) == joined(one, joined(two, last))


@settings(max_examples=400)
@given(some(2))
def test_nothing_that_either_knew_is_lost(pair):
    one, other = pair
    both = joined(one, other)

    assert joined(both, one) == both
    assert both.version == max(one.version, other.version)
    assert both.cancel == (one.cancel or other.cancel)
    assert {*both.holders} == {*one.holders, *other.holders}
    assert set(one.others) | set(other.others) == set(both.others)
    assert bool(both.results) == bool(one.results or other.results)
    for record in pair:
        for run in record.runs:
            assert covers(both.runs, [(run.start, run.stop)])
        for attempt, body in record.attempts.items():
            ranges = note_of(body).positions
            assert attempt in both.attempts or (ranges and covers(both.runs, ranges))


@settings(max_examples=400)
@given(some(2))
def test_an_end_gives_way_only_to_a_better_one(pair):
    one, other = pair
    order = ["succeeded", "cancelled", "failed", "lost", "skipped", "running", "waiting"]
    both = state_of(joined(one, other))

    assert order.index(both) <= order.index(state_of(one)) or not one.results


@given(records())
def test_bytes_and_back(record):
    assert decode(encode(record)) == record


@given(records())
def test_a_summary_tells_how_it_ended_and_adds_nothing(record):
    short = summary(record)

    assert short.is_summary
    assert state_of(short) == state_of(record) or not record.results
    assert normal(short) == short
    again = joined(short, record)
    assert again.results == record.results
    assert again.version == record.version


def test_ids_of_the_tests_are_ids():
    assert PLAIN.id == job_id_of("plain")


def newest(record: JobRecord) -> tuple[Epoch, int]:
    """The last attempt whose state is known."""
    notes = [note_of(body) for body in record.attempts.values()]
    return max(((one.epoch, one.number) for one in notes if one.saved), default=(Epoch(), -1))


@given(st.integers(0, 2**32))
def test_the_newest_state_that_one_of_them_knows_is_that_of_all(seed):
    dice = Dice(seed)
    one, other = dice.record(PLAIN), dice.record(PLAIN)

    assert newest(joined(one, other)) == max(newest(one), newest(other))
