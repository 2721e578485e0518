"""What a record forgets of many attempts, and what it never does."""

from distributed_grid.kernel.across import record as record_module
from distributed_grid.kernel.across.record import joined
from distributed_grid.kernel.across.record_parts import AttemptNote
from distributed_grid.kernel.across.record_parts import encode as encode_part
from tests.unit.across.test_record import HOME, a_record


def test_attempts_beyond_the_limit_are_forgotten_the_oldest_first(monkeypatch):
    monkeypatch.setattr(record_module, "NOTES_MAX", 2)
    monkeypatch.setattr(record_module, "WHOLE_TRIES", 1)
    notes = {f"a{n}": encode_part(AttemptNote(number=n, host=HOME)) for n in range(4)}

    assert set(a_record(attempts=notes).attempts) == {"a2", "a3"}


def test_no_rank_of_the_last_tries_of_a_gang_is_forgotten(monkeypatch):
    monkeypatch.setattr(record_module, "NOTES_MAX", 2)
    monkeypatch.setattr(record_module, "WHOLE_TRIES", 2)
    notes = {
        f"t{number}r{rank}": encode_part(AttemptNote(number=number, host=HOME, rank=rank))
        for number in range(3)
        for rank in range(4)
    }
    last = {name for name in notes if name[:2] in {"t1", "t2"}}
    one, two, three = (a_record(attempts=dict(list(notes.items())[start::3])) for start in range(3))

    assert set(a_record(attempts=notes).attempts) == last
    assert set(joined(joined(one, two), three).attempts) == last
    assert set(joined(one, joined(three, two)).attempts) == last
