import resource
import signal
from pathlib import Path

import msgspec
import pytest

from distributed_grid.edges.runner import reports as reports_module
from distributed_grid.edges.runner.journal import Acknowledged, Begun, Journal
from distributed_grid.edges.runner.reports import Reports
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.frames import Unframer
from distributed_grid.wire.keeper import Ended, FromKeeper, Run, Started, Usage


def open_reports(path: Path, *, keeper: str = "first", boot: str = "boot") -> Reports:
    return Reports(Journal(str(path)), keeper_id=keeper, boot_id=boot)


def an_end(attempt: str = "one", **fields: object) -> Ended:
    given = dict(how="exited", code=0, started_ms=1, ended_ms=2, usage=Usage())
    return Ended(number=0, attempt=attempt, **{**given, **fields})


def a_run(attempt: str = "one") -> Run:
    return Run(
        attempt=attempt, job=job_id_of("x"), argv=("true",), env={}, cwd="/",
        output_dir="/o", scratch_dir="/scratch",
    )  # fmt: skip


def told(reports: Reports) -> list[Started | Ended]:
    found = []
    while data := reports.take(1_000):
        bodies = Unframer().feed(data)
        found += [msgspec.msgpack.decode(body, type=FromKeeper) for body in bodies]
    return found


def test_numbers_grow_and_unacknowledged_reports_are_repeated(tmp_path: Path) -> None:
    reports = open_reports(tmp_path / "j")
    for code in range(3):
        reports.add(an_end(code=code))
    assert [report.number for report in told(reports)] == [1, 2, 3]

    reports.acknowledge(1)
    reports.repeat()
    assert [(report.number, report.code) for report in told(reports)] == [(2, 1), (3, 2)]
    assert reports.unacknowledged == 2


def test_the_next_keeper_repeats_what_the_last_could_not_tell(tmp_path: Path) -> None:
    first = open_reports(tmp_path / "j")
    first.begin(a_run())
    first.add(an_end(code=7))
    first.add(an_end("two"))
    first.acknowledge(2)
    first.add(an_end("three", code=9))
    first.flush()
    second = open_reports(tmp_path / "j", keeper="second")
    second.repeat()
    second.add(an_end("four"))

    assert [(r.number, r.attempt) for r in told(second)] == [(3, "three"), (4, "four")]


@pytest.mark.parametrize(
    ("boot", "note"), [("boot", "the keeper died"), ("other", "the machine restarted")]
)
def test_what_ran_when_the_keeper_went_is_told_as_failed(
    tmp_path: Path, boot: str, note: str
) -> None:
    first = open_reports(tmp_path / "j")
    first.begin(a_run())
    first.add(an_end(is_last=False, index=0))
    first.flush()
    second = open_reports(tmp_path / "j", keeper="second", boot=boot)
    second.repeat()
    last = told(second)[-1]

    assert (last.how, last.code, last.note, last.is_last) == ("lost", 125, note, True)
    assert second.leftover_scratch == ["/scratch"]
    assert open_reports(tmp_path / "j", keeper="third").leftover_scratch == []


@pytest.mark.parametrize(
    ("boot", "note"),
    [
        ("boot", "the keeper died before it started"),
        ("other", "the machine restarted before it started"),
    ],
)
def test_what_waited_when_the_keeper_went_is_not_told_as_lost(
    tmp_path: Path, boot: str, note: str
) -> None:
    first = open_reports(tmp_path / "j")
    first.wait(a_run())
    first.flush()
    second = open_reports(tmp_path / "j", keeper="second", boot=boot)
    second.repeat()
    (ended,) = told(second)

    assert (ended.how, ended.code, ended.note, ended.is_last) == ("stopped", 125, note, True)
    assert ended.started_ms == ended.ended_ms
    assert second.leftover_scratch == []


@pytest.mark.parametrize("has_waited", [False, True])
def test_whoever_may_have_started_is_lost(tmp_path: Path, *, has_waited: bool) -> None:
    """Nothing was flushed since: the keeper may be killed right after the process was made."""
    first = open_reports(tmp_path / "j")
    if has_waited:
        first.wait(a_run())
        first.flush()
    assert first.begin(a_run())
    second = open_reports(tmp_path / "j", keeper="second")
    second.repeat()

    assert [report.how for report in told(second)] == ["lost"]
    assert second.leftover_scratch == ["/scratch"]


@pytest.mark.parametrize(
    ("problem", "note"),
    [("", "the keeper died"), ("no space", "the keeper died; its output is lost: no space")],
)
def test_what_was_lent_is_brought_home_before_it_is_forgotten(
    tmp_path: Path, problem: str, note: str
) -> None:
    first = open_reports(tmp_path / "j")
    first.begin(a_run(), ("/spare/1", "/spare/2"))
    rescued = []

    def rescue(directory: str, lent: tuple[str, ...]) -> str:
        still_known = [r for r in Journal(str(tmp_path / "j")).records() if isinstance(r, Begun)]
        rescued.append((directory, lent, len(still_known)))
        return problem

    second = Reports(Journal(str(tmp_path / "j")), keeper_id="2", boot_id="boot", rescue=rescue)
    second.repeat()

    assert rescued == [("/o", ("/spare/1", "/spare/2"), 1)]
    assert told(second)[-1].note == note


def test_nothing_is_lent_that_the_journal_does_not_know(tmp_path: Path) -> None:
    """An older record may name the same files: the next keeper would mix up whose they are."""
    first = open_reports(tmp_path / "j")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "j").stat().st_size, limits[1]))
    try:
        is_known = first.begin(a_run(), ("/spare/1", "/spare/2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    first.flush()  # There is space again.

    assert not is_known
    records = Journal(str(tmp_path / "j")).records()
    assert [(r.attempt, r.lent) for r in records if isinstance(r, Begun)] == [("one", ())]


def test_a_record_of_an_earlier_version_lent_nothing(tmp_path: Path) -> None:
    old = {"type": "begun", "attempt": "one", "scratch_dir": "/scratch", "started_ms": 5}
    journal = Journal(str(tmp_path / "j"))
    journal.add_encoded(msgspec.msgpack.encode(old))
    journal.flush()

    assert [(r.lent, r.output_dir) for r in journal.records()] == [((), "")]
    assert open_reports(tmp_path / "j").leftover_scratch == ["/scratch"]


def test_a_record_of_another_version_hides_nothing_that_follows(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "j"))
    journal.add_encoded(msgspec.msgpack.encode({"type": "extended", "attempt": "one"}))
    journal.add(Acknowledged(upto=3))
    journal.flush()

    assert list(Journal(str(tmp_path / "j")).records()) == [Acknowledged(upto=3)]


def test_a_journal_made_small_still_knows_who_waits(tmp_path: Path) -> None:
    first = open_reports(tmp_path / "j")
    for attempt in ("one", "two"):
        first.wait(a_run(attempt))
    first.begin(a_run("one"))
    first.add(Started(number=0, attempt="one", pid=1, at_ms=1))
    first.acknowledge(1)
    first._rewrite()
    second = open_reports(tmp_path / "j", keeper="second")
    second.repeat()

    assert [(r.attempt, r.how) for r in told(second)] == [("one", "lost"), ("two", "stopped")]


@pytest.mark.parametrize("cut", [1, 5, 9, 40])
def test_a_torn_tail_is_dropped_and_the_rest_is_kept(tmp_path: Path, cut: int) -> None:
    first = open_reports(tmp_path / "j")
    first.add(an_end("one"))
    first.add(an_end("two"))
    first.flush()
    data = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(data[:-cut])
    second = open_reports(tmp_path / "j")
    second.repeat()

    assert [report.attempt for report in told(second)] == ["one"]


def test_a_record_that_rotted_is_dropped_with_what_follows(tmp_path: Path) -> None:
    first = open_reports(tmp_path / "j")
    first.add(an_end("one"))
    first.flush()
    size = (tmp_path / "j").stat().st_size
    first.add(an_end("two"))
    first.flush()
    data = bytearray((tmp_path / "j").read_bytes())
    data[size + 20] ^= 0xFF
    (tmp_path / "j").write_bytes(data)
    second = open_reports(tmp_path / "j")
    second.repeat()

    assert [report.attempt for report in told(second)] == ["one"]


def test_junk_in_the_place_of_a_journal_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"\xff" * 1_000)
    reports = open_reports(tmp_path / "j")

    assert reports.unacknowledged == 0


def test_the_journal_stays_small_when_reports_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports_module, "COMPACT_ABOVE_BYTES", 10_000)
    reports = open_reports(tmp_path / "j")
    for _ in range(1_000):
        reports.add(an_end())
        reports.acknowledge(10**9)
        reports.flush()

    assert (tmp_path / "j").stat().st_size < 20_000
    assert open_reports(tmp_path / "j")._next_number == 1_001


def test_reports_beyond_what_memory_holds_are_read_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports_module, "IN_MEMORY_MAX", 10)
    reports = open_reports(tmp_path / "j")
    for code in range(100):
        reports.add(an_end(code=code))
    reports.acknowledge(5)
    reports.repeat()

    assert len(reports._unacknowledged) == 10
    assert [report.code for report in told(reports)] == list(range(5, 100))


def test_as_many_reports_are_repeated_as_are_announced(tmp_path: Path) -> None:
    first = open_reports(tmp_path / "j")
    for _ in range(5):
        first.add(an_end())
    first.acknowledge(2)
    first.flush()
    journal = Journal(str(tmp_path / "j"))
    records = list(journal.records())
    del records[2]  # A report that was lost, for whatever reason.
    journal.rewrite(records, [])
    second = open_reports(tmp_path / "j")
    second.repeat()

    assert second.unacknowledged == len(told(second)) == 3


def test_an_acknowledgement_of_the_future_is_one_of_the_present(tmp_path: Path) -> None:
    reports = open_reports(tmp_path / "j")
    reports.acknowledge(1_000)
    reports.add(an_end())

    assert reports.unacknowledged == 1


def test_records_survive_their_own_encoding(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "j"))
    records = [Acknowledged(upto=3), an_end(note="ä")]
    for record in records:
        journal.add(record)
    journal.flush()

    assert list(Journal(str(tmp_path / "j")).records()) == records
