import os
from pathlib import Path

import pytest

from distributed_grid.edges.runner import output as output_module
from distributed_grid.edges.runner.output import Output, bring_home
from distributed_grid.edges.runner.spare import SPARE_MAX, Spare
from distributed_grid.model import bytesize
from distributed_grid.wire.keeper import Limits
from tests.keeper_lab import KeeperLab, wait_until


def test_binary_output_arrives_as_it_was_written(lab: KeeperLab) -> None:
    lab.outcome("python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)")

    assert lab.output() == bytes(range(256)) * 1000
    assert lab.output("stderr") == b""


def test_output_files_are_for_their_owner_alone(lab: KeeperLab, tmp_path: Path) -> None:
    lab.shell_outcome("echo x")

    assert (tmp_path / "output/one").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "output/one/stdout").stat().st_mode & 0o777 == 0o600


def test_a_silent_process_leaves_no_file_and_costs_the_next_one_none(
    lab: KeeperLab, tmp_path: Path
) -> None:
    lab.outcome("true")
    spare = sorted((lab.data_dir / "spare").iterdir())
    lab.outcome("true", attempt="two")

    assert sorted((lab.data_dir / "spare").iterdir()) == spare
    assert len(spare) == len(("stdout", "stderr"))
    assert not (tmp_path / "output").exists()


def test_what_runs_for_a_moment_has_its_files_and_another_try_writes_to_their_end(
    lab: KeeperLab, tmp_path: Path
) -> None:
    lab.send(lab.a_shell("echo first; read line <fifo; echo second", cwd=str(tmp_path)))
    os.mkfifo(tmp_path / "fifo")
    wait_until((tmp_path / "output/one/stderr").exists)
    assert lab.output() == b"first\n"
    (tmp_path / "fifo").write_text("go\n")
    lab.ended()
    lab.shell_outcome("echo third", attempt="two", output_dir=str(tmp_path / "output/one"))

    assert lab.output() == b"first\nsecond\nthird\n"


def test_spare_files_of_an_earlier_keeper_are_removed_and_their_number_is_bounded(
    tmp_path: Path,
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (left / "file").touch()
    spare = Spare(str(left))
    spare.clear()

    assert not left.exists()
    first = spare.file()
    spare.give_file(first)
    assert spare.file() == first
    paths = [spare.file() for _ in range(SPARE_MAX + 1)]
    for path in paths:
        spare.give_file(path)
    assert len(list(left.iterdir())) == SPARE_MAX + 1  # The first one is still out.


def test_what_cannot_be_started_keeps_no_spare_file(lab: KeeperLab, tmp_path: Path) -> None:
    for attempt in ("one", "two"):
        assert lab.outcome("true", attempt=attempt, cwd=str(tmp_path / "none")).how == "failed"

    assert len(list((lab.data_dir / "spare").iterdir())) == len(("stdout", "stderr"))
    assert not (tmp_path / "output").exists()


def test_what_was_written_just_before_the_keeper_died_is_kept(
    lab: KeeperLab, tmp_path: Path
) -> None:
    """Too early for the file to have its name; the others began in the same turn."""
    names = [f"job-{number}" for number in range(40)]
    script = 'echo precious; : >"$GRID_WORKDIR/x"; echo >ran-$0; [ $0 = job-0 ] && kill -9 $PPID'
    words = ("/bin/sh", "-c", f"{script}; exec sleep 600")
    lab.send(*(lab.a_run(*words, name, attempt=name) for name in names))
    lab.wait()
    lab.start()
    ran = [name for name in names if (tmp_path / f"ran-{name}").exists()]

    assert {(lab.ended(name)[-1].how, lab.ended(name)[-1].note) for name in ran} == {
        ("lost", "the keeper died")
    }
    assert [lab.output(attempt=name) for name in ran] == [b"precious\n"] * len(ran)
    assert not (lab.data_dir / "spare").exists()
    wait_until(lambda: list((tmp_path / "scratch").iterdir()) == [])


def lent_files(tmp_path: Path, out: bytes, err: bytes) -> tuple[str, str]:
    for name, data in (("1", out), ("2", err)):
        (tmp_path / name).write_bytes(data)
    return str(tmp_path / "1"), str(tmp_path / "2")


def test_what_is_brought_home_is_moved_or_goes_to_the_end(tmp_path: Path) -> None:
    home = tmp_path / "home/job"
    assert bring_home(str(home), lent_files(tmp_path, b"first\n", b"")) == ""
    assert [path.name for path in home.iterdir()] == ["stdout"]
    lent = lent_files(tmp_path, b"second\n", b"third\n")
    assert bring_home(str(home), lent) == bring_home(str(home), lent) == ""

    assert (home / "stdout").read_bytes() == b"first\nsecond\n"
    assert (home / "stderr").read_bytes() == b"third\n"


def test_what_cannot_be_brought_home_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, not a directory")

    why = bring_home(str(tmp_path / "home"), lent_files(tmp_path, b"x", b""))
    assert why == "File exists"


def test_a_link_in_the_place_of_a_lent_file_is_not_brought_home(tmp_path: Path) -> None:
    lent = lent_files(tmp_path, b"", b"")
    (tmp_path / "1").unlink()
    (tmp_path / "1").symlink_to("/etc/passwd")

    assert bring_home(str(tmp_path / "home"), lent) == ""
    assert not (tmp_path / "home").exists()


def test_a_lent_file_with_something_in_it_is_not_lent_again(tmp_path: Path) -> None:
    spare = Spare(str(tmp_path / "spare"))
    lent = (spare.file(), spare.file())
    Path(lent[0]).write_text("words")
    options = {"attempt": "a", "is_chunk": False, "bytes_max": 0}
    Output(str(tmp_path / "home"), spare=spare, lent=lent, **options).close()

    assert (tmp_path / "home/stdout").read_text() == "words"
    assert spare.file() == lent[1]


def test_no_space_for_a_spare_file_means_none_is_lent(lab: KeeperLab, tmp_path: Path) -> None:
    (tmp_path / "spare").write_text("a file, not a directory")

    assert Spare(str(tmp_path / "spare")).lend(lab.a_run("true")) == ()


def test_bytes_dropped_while_somebody_writes_are_a_lower_bound(tmp_path: Path) -> None:
    output = Output(str(tmp_path), attempt="a", is_chunk=False, bytes_max=16)
    for handle in output.open():
        os.write(handle, b"0123456789")
        os.close(handle)
    output.look(index=-1)
    output.finish(index=-1)

    assert output.notes() == [f"output cut: at least {bytesize.text(output.dropped_bytes)} dropped"]


def test_a_flood_is_bounded_while_it_runs_and_told(lab: KeeperLab, tmp_path: Path) -> None:
    limits = Limits(output_bytes_max=1 << 20)
    ended = lab.shell_outcome("yes | head -c 200000000; sleep 0.5; echo end", limits=limits)
    files = list((tmp_path / "output/one").glob("stdout*"))

    assert "output cut: " in ended.note
    assert sum(file.stat().st_size for file in files) <= 1 << 20
    assert lab.output().endswith(b"end\n")
    assert lab.output("stdout.1").endswith(b"y\ny\n")


def test_a_flood_is_bounded_after_a_short_job_too(lab: KeeperLab, tmp_path: Path) -> None:
    limits = Limits(output_bytes_max=1 << 20)
    ended = lab.shell_outcome("yes | head -c 3000000; echo end", limits=limits)

    assert ended.note == f"output cut: {bytesize.text(3_000_004 - (1 << 19))} dropped"
    assert lab.output("stdout.1").endswith(b"y\nend\n")


def test_silent_indices_leave_no_files(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_shell("[ $GRID_ARRAY_INDEX = 3 ] && echo three; true", indices=(1, 2, 3, 4)))
    lab.ended()

    wait_until(lambda: [file.name for file in (tmp_path / "output/one").iterdir()] == ["3.stdout"])
    assert lab.output("3.stdout") == b"three\n"


def test_the_running_index_has_its_file_after_a_moment(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_shell("echo now; exec sleep 600", indices=(7,)))
    file = tmp_path / "output/one/7.stdout"

    assert wait_until(lambda: file.exists() and file.read_bytes() == b"now\n")


def test_a_flooding_index_is_cut_under_its_own_name(tmp_path: Path) -> None:
    output = Output(str(tmp_path), attempt="a", is_chunk=True, bytes_max=8)
    for handle in output.open():
        with open(handle, "wb") as file:  # noqa: PTH123
            file.write(b"0123456789")
    output.finish(index=5)

    assert (tmp_path / "5.stdout.1").read_bytes() == b"grid-cut 0000000000000000006\n6789"
    assert output.dropped_bytes == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "5.stderr", "5.stderr.1", "5.stdout", "5.stdout.1",
    ]  # fmt: skip


@pytest.mark.parametrize("earlier_max", [0, 1_000])
def test_a_silent_try_of_an_index_removes_what_the_one_before_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier_max: int
) -> None:
    monkeypatch.setattr(output_module, "EARLIER_MAX", earlier_max)
    for name in ("5.stdout", "5.stdout.1", "6.stdout"):
        (tmp_path / name).write_text("of an earlier try")
    output = Output(str(tmp_path), attempt="a", is_chunk=True, bytes_max=8)
    for handle in output.open():
        os.close(handle)
    output.finish(index=5)
    output.close()

    assert [path.name for path in tmp_path.iterdir()] == ["6.stdout"]


def test_the_environment_is_exactly_what_was_given(new_lab: KeeperLab, tmp_path: Path) -> None:
    lab = new_lab.start(env={"SECRET": "of the keeper"})
    lab.outcome("env", env={"PATH": "/usr/bin:/bin", "WORD": "ä b"}, indices=(7,))
    lines = lab.output("7.stdout").decode().splitlines()

    assert sorted(lines) == [
        "GRID_ARRAY_INDEX=7",
        f"GRID_WORKDIR={tmp_path}/scratch/one",
        "PATH=/usr/bin:/bin",
        "WORD=ä b",
    ]


def test_no_descriptor_reaches_a_job_but_the_usual_three(
    new_lab: KeeperLab, tmp_path: Path
) -> None:
    with (tmp_path / "leaked").open("w") as leaked:
        lab = new_lab.start(pass_fds=[leaked.fileno()])
        lab.outcome("python3", "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))")

    # The fourth is the directory that is being listed.
    assert lab.output() == b"['0', '1', '2', '3']\n"


def test_no_signal_is_blocked_or_ignored_in_a_job(lab: KeeperLab) -> None:
    lab.outcome("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")

    sets = [int(line.split()[1], 16) for line in lab.output().splitlines()]
    # Signals 32 and 33 belong to the C library, and nobody may ask for them.
    assert [signals & ~(3 << 31) for signals in sets] == [0, 0]


@pytest.mark.rows("S3-99")
def test_the_scratch_directory_is_private_and_removed(lab: KeeperLab, tmp_path: Path) -> None:
    script = 'stat -c %a "$GRID_WORKDIR"; mkdir -p "$GRID_WORKDIR/a/b"; echo >"$GRID_WORKDIR/a/b/c"'
    lab.shell_outcome(script)

    assert lab.output() == b"700\n"
    wait_until(lambda: not (tmp_path / "scratch/one").exists())


def test_every_index_finds_an_empty_scratch_directory(lab: KeeperLab, tmp_path: Path) -> None:
    script = 'ls "$GRID_WORKDIR"; echo x >"$GRID_WORKDIR/file"'
    lab.send(lab.a_shell(script, indices=tuple(range(5))))
    lab.ended()

    wait_until(lambda: list((tmp_path / "output/one").iterdir()) == [])
    wait_until(lambda: list((tmp_path / "scratch").iterdir()) == [])


@pytest.mark.parametrize("indices", [(), (0, 1)])
def test_what_removes_a_large_scratch_directory_is_not_taken_for_the_next_job(
    lab: KeeperLab, tmp_path: Path, indices: tuple[int, ...]
) -> None:
    script = '[ "$GRID_ARRAY_INDEX" = 1 ] || (cd "$GRID_WORKDIR" && seq 1000 | xargs touch)'
    first = lab.shell_outcome(script, indices=indices)
    second = lab.outcome("true", attempt="two")

    assert (first.code, first.note, second.note) == (0, "", "")
    wait_until(lambda: list((tmp_path / "scratch").iterdir()) == [])
