"""Arrays as researchers use them, against a real agent with a real keeper."""

from collections.abc import Iterator

import pytest

from distributed_grid.client.specification import array_of
from tests.e2e.test_run import Lab
from tests.mesh_lab import awaited

# Of six: one exits with 42, one dies of a signal, one takes too long, the others end well.
SIM = """case $GRID_ARRAY_INDEX in
27) echo reading; echo no such row >&2; exit 42;;
47) kill -SEGV $$;;
60) exec sleep 60;;
esac; echo done $GRID_ARRAY_INDEX"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("arrays"))
    up = made("up", "--detach", "--name", "desk")
    assert up.returncode == 0, up.stderr
    yield made
    made("down", "--stop-jobs")


@pytest.fixture(scope="module")
def sweep(lab: Lab) -> str:
    """An array of a list of indices, three of which have failed."""
    done = lab(
        "run", "--name", "sweep", "--timeout", "1s", "--array", "27,47,60-63", "sh", "-c", SIM
    )
    assert done.returncode == 1
    return done.stderr.decode()


def test_a_list_of_indices_is_an_array_and_each_failure_has_its_reason_in_words(lab, sweep):
    job = lab.json("job", "sweep")

    assert "3 of 6 succeeded, 3 failed" in sweep
    assert "27 (exit 42), 47 (exit 139: SIGSEGV), 60 (exit 124: timeout)" in sweep
    assert [index for index, _ in job["array"]["failed_indices"]] == [27, 47, 60]


def test_the_list_of_jobs_counts_what_went_well_and_what_failed(lab, sweep):
    assert b"failed 3/6, 3 failed" in lab("jobs", "--name", "sweep").stdout


def test_attempts_say_which_indices_they_ran_and_the_job_why_each_failed(lab, sweep):
    attempts = lab.json("job", "sweep")["attempts"]
    ran = [index for one in attempts for index in array_of(one["indices"]).indices]
    shown = lab("job", "sweep").stdout.decode()

    assert sorted(ran) == [27, 47, 60, 61, 62, 63]
    assert "  47: exit 139: SIGSEGV" in shown
    assert "  60: exit 124: timeout" in shown


def test_an_index_that_used_too_much_memory_says_so(lab):
    eats = "import os; b = bytearray(300 << 20) if os.environ['GRID_ARRAY_INDEX'] == '3' else b''"
    words = ("run", "--name", "eats", "--memory", "64MiB", "--array", "1,3")
    done = lab(*words, "python3", "-c", f"{eats}; import time; time.sleep(len(b) and 30)")

    assert done.returncode == 1
    assert b"3 (exit 137: killed: out of memory, used more than 64 MiB)" in done.stderr


def test_of_several_that_are_cancelled_none_that_waited_starts(lab):
    cpus = str(lab.json("status")["cpu_milli_total"] // 1_000)
    for name in ("c1", "c2", "c3", "c4"):
        lab.detached("--name", name, "--cpus", cpus, "sh", "-c", f"echo >ran.{name}; sleep 60")
    awaited((lab.dir / "ran.c1").exists)
    done = lab("cancel", "c1", "c[2", "c2", "c?", "c1")

    assert done.returncode == 3  # There is no c[2; the others are cancelled nevertheless.
    assert done.stdout.count(b"cancelled") == 4
    assert [path.name for path in lab.dir.glob("ran.c*")] == ["ran.c1"]
    assert not any(lab.json("job", name)["attempts"] for name in ("c2", "c3", "c4"))


def test_all_are_cancelled_only_after_a_question(lab):
    lab.detached("--name", "long", "sleep", "60")
    asked = lab("cancel", "--all")
    was = lab.json("job", "long")["state"]
    done = lab("cancel", "--all", "--yes")

    assert asked.returncode == 2
    assert was in {"waiting", "running"}
    assert b"Cancel 1 jobs? There is nobody to ask: say --yes" in asked.stderr
    assert done.stdout.split()[1:] == [b"long", b"cancelled"]
    assert lab("cancel").returncode == lab("cancel", "--all", "x").returncode == 2
    assert lab("cancel", "--all").stderr == b"grid: nothing waits or runs\n"


def test_the_output_of_an_array_is_that_of_its_failed_indices_each_after_its_number(lab, sweep):
    shown = lab("logs", "sweep")
    of_errors = lab("logs", "--stderr", "sweep")
    everything = lab("logs", "--all", "sweep")
    one = lab("logs", "--index", "61", "sweep")
    as_json = lab.json("logs", "sweep")

    assert (shown.returncode, shown.stderr) == (0, b"")
    assert shown.stdout.decode() == (
        "==> sweep 27 (exit 42) <==\nreading\nno such row\n"
        "==> sweep 47 (exit 139: SIGSEGV) <==\n==> sweep 60 (exit 124: timeout) <==\n"
    )
    assert b"reading" not in of_errors.stdout
    assert b"==> sweep 61 <==\ndone 61\n==> sweep 62 <==\ndone 62\n" in everything.stdout
    assert one.stdout == b"done 61\n"
    assert [told["index"] for told in as_json] == [27, 47, 60]
    assert as_json[0]["stderr"] == "no such row\n"


def test_an_array_that_went_well_has_no_output_to_show_but_all_of_it(lab):
    assert lab("run", "--name", "well", "--array", "3-4", "echo", "fine").returncode == 0
    plain = lab("logs", "-f", "well")

    assert (plain.returncode, plain.stdout) == (0, b"")
    assert b"No index of well has failed" in plain.stderr
    assert lab("logs", "--all", "well").stdout.count(b"fine\n") == 2
    lab("run", "--name", "plain", "true")
    assert lab("logs", "--all", "plain").returncode == 2


def test_what_failed_of_an_array_is_run_again_under_its_numbers_from_its_directory(lab):
    script = 'echo "$V $GRID_ARRAY_INDEX"; test -e mended || test $GRID_ARRAY_INDEX -ge 120'
    words = ("--name", "again", "--array", "0-238:2%4", "--env", "V=told", "sh", "-c", script)
    assert lab("run", *words).returncode == 1
    (lab.dir / "mended").touch()
    new = lab("rerun", "again", "--failed").stdout.decode().strip()
    done = lab("wait", new)
    job = lab.json("job", new)

    assert done.returncode == 0, done.stderr
    assert (job["name"], job["array"]["indices"]) == ("again", "0-118:2")
    assert lab("logs", "--index", "118", new).stdout == b"told 118\n"
    assert lab.json("job", lab("rerun", new).stdout.decode().strip())["array"]["total"] == 60


def test_what_has_not_ended_has_not_failed_or_has_no_directory_is_not_run_again(lab, tmp_path):
    lab.detached("--name", "goes-on", "sleep", "60")
    early = lab("rerun", "goes-on")
    lab("cancel", "goes-on")
    lab("run", "--name", "good", "true")
    well = lab("rerun", "--failed", "good")
    lab("run", "--name", "gone", "--cwd", str(tmp_path), "true")
    tmp_path.rmdir()
    gone = lab("rerun", "gone")

    assert (early.returncode, well.returncode, gone.returncode) == (5, 5, 3)
    assert b"goes-on has not ended" in early.stderr
    assert b"nothing of good has failed" in well.stderr
    assert b"Run all of it again: grid rerun good" in well.stderr
    assert b"Bring it back" in gone.stderr


def test_indices_of_an_array_are_cancelled_and_the_others_go_on(lab):
    lab.detached("--name", "some", "--array", "0-3", "sh", "-c",
                 "test $GRID_ARRAY_INDEX != 2 || sleep 60; echo $GRID_ARRAY_INDEX")  # fmt: skip
    awaited(lambda: lab.json("job", "some")["array"]["running"] == 1)
    awaited(lambda: lab.json("job", "some")["array"]["succeeded"] == 3)
    none = lab("cancel", "some", "--index", "4")
    done = lab("cancel", "some", "--index", "2", "--index", "3")
    ended = lab("wait", "some")

    assert none.returncode == 2
    assert b"expected an index of the array, got 4" in none.stderr
    assert done.stdout.endswith(b" 3/4, 1 cancelled\n")
    assert ended.returncode == 0
    assert lab.json("job", "some")["reason"] == "1 of 4 were cancelled"
    assert lab("cancel", "some", "other", "--index", "2").returncode == 2
    lab("run", "--name", "no-array", "true")
    assert lab("cancel", "no-array", "--index", "2").returncode == 2


def test_what_an_array_wrote_is_in_a_file_for_each_index(lab):
    script = "echo out $GRID_ARRAY_INDEX; echo err >&2; exit $((GRID_ARRAY_INDEX % 2))"
    words = ("--name", "filed", "--array", "3-5", "--retries", "1")
    done = lab("run", *words, "-o", "out.%a.100%%", "sh", "-c", script)
    found = {path.name: path.read_text() for path in lab.dir.glob("out.*")}

    assert done.returncode == 1
    assert found == {f"out.{index}.100%": f"out {index}\nerr\n" for index in (3, 4, 5)}


def test_the_file_of_a_job_is_there_for_whoever_waited_and_has_every_try(lab):
    detached = lab.detached("-o", "%j.log", "--retries", "1", "sh", "-c", "echo a; exit 3")
    assert lab("wait", detached).returncode == 3
    lab("run", "-o", str(lab.dir / "none" / "x"), "--name", "lost", "echo", "kept")
    lost = lab("wait", "lost")

    assert (lab.dir / f"{detached[:12]}.log").read_text() == "a\na\n"
    assert lab("logs", "lost").stdout == b"kept\n"
    assert "x: not brought back: No such file or directory" in str(lab.json("job", "lost")["story"])
    assert lost.returncode == 0
    assert not list(lab.dir.glob("*.new"))
    for name in ("out", "out%%a"):
        refused = lab("run", "-o", name, "--array", "0-1", "true")
        assert refused.returncode == 2
        assert b"of an array with %a in its name" in refused.stderr
