"""What a job makes or changes on another machine comes back by itself: three real agents."""

import json
import re

import pytest

from tests.mesh_jobs import ENDED, Gate, once, over
from tests.mesh_lab import Member, MeshLab, awaited
from tests.unit.artifacts.lab import plant

pytestmark = pytest.mark.slow

PLAIN = "pretend: {cpus: 2, memory: 8GiB}\n"
NAMES = ("desk", "attic", "barn")


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire(NAMES, config=PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def lab(fleet):
    yield fleet
    fleet.bring_up(member for member in fleet.members if not member.pids())
    fleet.settled(fleet.members)


@pytest.fixture
def desk(lab):
    return lab["desk"]


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


@pytest.fixture
def work(desk, request):
    return plant(desk.dir / re.sub(r"\W", "-", request.node.name), {})


def behind(gate: Gate, script: str) -> str:
    """A script that goes on once the gate is open."""
    return f"{' '.join(gate.words('true'))}; {script}"


def run(member: Member, work, *words: str, script: str):
    return member("run", "--cwd", str(work), *words, "--", "sh", "-c", script)


def submitted(member: Member, work, *words: str, script: str) -> str:
    return member.says(
        "run", "--detach", "--cwd", str(work), *words, "--", "sh", "-c", script
    ).strip()


def names(work) -> set[str]:
    return {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}


def texts(work) -> dict[str, str]:
    return {name: (work / name).read_text() for name in names(work)}


def story(member: Member, word: str) -> str:
    told = json.loads(member.says("job", word, "--json"))
    return "\n".join(f"{line['what']}: {line['detail']}" for line in told["story"])


def test_what_a_cancelled_job_had_written_comes_back_too(desk, work, gate, tmp_path):
    wrote = tmp_path / "wrote"
    script = f"echo 10 > steps; touch {wrote}; {' '.join(gate.words('true'))}"
    word = submitted(desk, work, "--node", "attic", script=script)
    awaited(wrote.exists)
    desk.says("cancel", word)
    state = once(desk, word, *ENDED)["state"]

    assert (state, texts(work)) == ("cancelled", {"steps": "10\n"})


def test_what_indices_wrote_before_one_was_cancelled_comes_back(desk, work, gate, tmp_path):
    """They ran one after the other in one process group, which ends with the one that is not to."""
    script = (
        f"echo $GRID_ARRAY_INDEX > of-$GRID_ARRAY_INDEX; touch {tmp_path}/$GRID_ARRAY_INDEX;"
        f" [ $GRID_ARRAY_INDEX = 0 ] || {' '.join(gate.words('true'))}"
    )
    word = submitted(desk, work, "--node", "attic", "--array", "0-1%1", script=script)
    awaited((tmp_path / "1").exists)
    desk.says("cancel", word, "--index", "1")
    once(desk, word, *ENDED)

    assert "of-0" in names(work)


def test_what_a_job_makes_and_changes_is_here_when_run_returns(desk, work):
    plant(work, {"in.txt": "1\n", "same.txt": "s\n", "lib/a.py": "pass\n", ".gitignore": "out/\n"})
    before = (work / "same.txt").stat()
    done = run(
        desk, work, "--node", "attic",
        script="mkdir -p out .venv __pycache__; echo model > out/model.bin; echo 2 >> in.txt;"
        " cp -p same.txt copy.txt; rm lib/a.py; touch .venv/pyvenv.cfg __pycache__/a.pyc same.txt",
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert texts(work) == {
        "in.txt": "1\n2\n", "same.txt": "s\n", "copy.txt": "s\n", "out/model.bin": "model\n",
        "lib/a.py": "pass\n", ".gitignore": "out/\n",
    }  # fmt: skip
    after = (work / "same.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_job_without_files_brings_its_own(desk, work):
    done = run(desk, work, "--node", "attic", script="echo 1 > made.txt")

    assert (done.returncode, done.stderr, texts(work)) == (0, "", {"made.txt": "1\n"})


def test_what_a_failed_job_left_comes_back_too(desk, work):
    done = run(desk, work, "--node", "attic", script="echo 1 > made.txt; exit 3")

    assert (done.returncode, texts(work)) == (3, {"made.txt": "1\n"})


def test_a_file_that_changed_here_meanwhile_stays_and_the_other_is_beside_it(desk, work, gate):
    plant(work, {"model.bin": "before\n", "late.txt": "before\n"})
    word = submitted(
        desk, work, "--node", "attic",
        script=behind(gate, "echo theirs > model.bin; echo theirs > late.txt"),
    )  # fmt: skip
    once(desk, word, "running")
    plant(work, {"model.bin": "mine\n"})
    gate.open()
    done = desk("wait", word)

    aside = f"model.bin.grid-{word[:12]}"
    assert texts(work) == {"model.bin": "mine\n", "late.txt": "theirs\n", aside: "theirs\n"}
    told = f"kept beside what has changed here meanwhile or did not travel: model.bin ({aside})"
    assert told in done.stderr
    assert told in story(desk, word)


def test_of_two_jobs_that_write_one_file_both_are_here(desk, work, gate):
    plant(work, {"log": "0\n"})
    words = [
        submitted(desk, work, "--node", node, script=behind(gate, f"echo {node} >> log"))
        for node in ("attic", "barn")
    ]
    for word in words:
        once(desk, word, "running")
    gate.open()
    for word in words:
        over(desk, word)

    assert sorted(texts(work).values()) == ["0\nattic\n", "0\nbarn\n"]
    assert len(names(work) - {"log"}) == 1


def test_more_than_256_mib_stays_for_a_day_and_the_command_that_is_told_fetches_it(desk, work):
    plant(work, {"in.txt": "1\n"})
    done = run(desk, work, "--node", "attic", script="echo s > small; truncate -s 300M big.bin")

    assert done.returncode == 0
    assert names(work) == {"in.txt", "small"}
    last = done.stderr.splitlines()[-1]
    assert last.startswith("grid: 300 MiB of its outputs stay behind (1 file), for a day on attic")
    command = re.search(r"grid (outputs [0-9a-f]{12})$", last).group(1).split()
    assert desk.says(*command, "--to", str(work)).splitlines() == ["big.bin"]
    assert (work / "big.bin").stat().st_size == 300 << 20


def test_output_narrows_it_and_no_output_ends_it(desk, work):
    plant(work, {"in.txt": "1\n", "results/old.csv": "old\n"})
    script = "echo 1 > results/a.csv; echo 1 > junk; echo 2 > in.txt"
    none = run(desk, work, "--node", "attic", "--no-output", script=script)
    was = texts(work)
    some = run(desk, work, "--node", "attic", "--output", "results/**", script=script)

    assert (none.returncode, none.stderr) == (0, "")
    assert was == {"in.txt": "1\n", "results/old.csv": "old\n"}
    assert (some.returncode, some.stderr) == (0, "")
    assert texts(work) == {**was, "results/a.csv": "1\n"}


def test_an_array_and_a_gang_bring_theirs(desk, work):
    plant(work, {"base": "7\n"})
    script = "mkdir -p out; cp base out/$GRID_ARRAY_INDEX; echo $GRID_ARRAY_INDEX > one"
    done = run(desk, work, "--array", "0-3", "--avoid", "desk", script=script)

    assert done.returncode == 0, done.stderr
    assert {f"out/{index}" for index in range(4)} <= names(work)
    ones = {name: (work / name).read_text() for name in names(work) if name.startswith("one")}
    assert "one" in ones, ones
    gang = plant(work / "gang", {"base": "7\n"})
    done = run(
        desk, gang, "--gang", "2", "--avoid", "desk", script="echo $GRID_RANK > rank.$GRID_RANK; cp base b"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert texts(gang) == {"base": "7\n", "b": "7\n", "rank.0": "0\n", "rank.1": "1\n"}


def test_links_pipes_and_devices_are_named_and_the_rest_comes(desk, work):
    script = "echo 1 > a; ln -s a inside; ln -s /etc/passwd outside; mkfifo pipe"
    done = run(desk, work, "--node", "attic", script=script)

    assert done.returncode == 0
    assert {path.name for path in work.iterdir()} == {"a", "inside"}
    assert "outputs stay behind: pipe (a pipe), outside (a symbolic link that leads outside" in (
        done.stderr
    )


def test_an_agent_that_starts_again_while_the_job_runs_finds_what_changed(lab, desk, work, gate):
    attic = lab["attic"]
    plant(work, {"a": "1\n", "b": "1\n"})
    word = submitted(desk, work, "--node", "attic", script=behind(gate, "echo 2 > b; echo 3 > c"))
    once(desk, word, "running")
    attic.says("down")
    attic.up()
    lab.settled(lab.members)
    gate.open()
    over(desk, word)

    assert texts(work) == {"a": "1\n", "b": "2\n", "c": "3\n"}


def test_what_a_job_left_whose_submitter_is_dead_is_fetched_by_any_member(
    lab, desk, work, gate, tmp_path
):
    plant(work, {"a": "1\n"})
    word = submitted(
        desk, work, "--node", "attic",
        script=behind(gate, "echo 2 > result; truncate -s 300M big.bin"),
    )  # fmt: skip
    once(desk, word, "running")
    desk.kill()
    gate.open()
    barn = lab["barn"]
    assert over(barn, word) == over(lab["attic"], word) == {"succeeded"}

    for member in (barn, lab["attic"]):
        target = tmp_path / member.name
        member.says("outputs", word, "--to", str(target))
        assert names(target) == {"result", "big.bin"}
