"""Files that nobody named: a job finds them after its machine is lost, or waits and says so."""

import contextlib
import json
import os

import pytest

from distributed_grid.agent.transplanting import SMALL
from tests.mesh_jobs import ENDED, PLAIN, Gate, job, listed, once, over
from tests.mesh_lab import MeshLab, awaited
from tests.unit.artifacts.lab import plant

pytestmark = pytest.mark.slow

NAMES = ("desk", "attic", "barn", "cellar")


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire(NAMES, config=PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def lab(fleet):
    yield fleet
    for member in fleet.members:
        with contextlib.suppress(OSError):
            member("cancel", *(word for word, now in listed(member).items() if now not in ENDED))
    fleet.bring_up(member for member in fleet.members if not member.pids())
    fleet.settled(fleet.members)


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


@pytest.fixture
def work(lab, request):
    """A directory of the person at the desk; what is in it is named by nobody."""
    return plant(lab["desk"].dir / request.node.name, {"in.txt": "seven\n"})


def begun(member, work, *words: str) -> tuple[str, str]:
    """A job and where it runs."""
    word = member.says("run", "--detach", "--cwd", str(work), *words).strip()
    return word, once(member, word, "running")["node"]


def is_safe(member, word: str) -> bool:
    """Whether a second machine has its files, by and by; nobody hurries for this question."""
    return json.loads(member.http("GET", f"/v1/jobs/{word}/safe?timeout_ms=0")[1])["is_safe"]


@pytest.mark.rows("S0-90")
def test_a_job_that_ran_at_home_finds_its_file_elsewhere(lab, gate, work):
    desk, *others = lab.members
    word, node = begun(desk, work, *gate.words("cat", "in.txt"))
    assert node == "desk"
    awaited(lambda: is_safe(desk, word), lambda: job(desk, word))
    desk.kill()
    gate.open()

    for member in others:
        assert over(member, word) == {"succeeded"}, job(member, word)
        assert member.says("logs", word) == "seven\n"


def test_a_small_directory_is_on_a_second_machine_before_its_job_is_acknowledged(lab, gate, work):
    desk, *others = lab.members
    done = desk("run", "--detach", "--cwd", str(work), *gate.words("cat", "in.txt"))
    desk.kill()
    gate.open()

    assert "keep this machine on" not in done.stderr
    word = done.stdout.strip()
    for member in others:
        assert over(member, word) == {"succeeded"}, job(member, word)
        assert member.says("logs", word) == "seven\n"


def test_of_a_large_one_people_are_told_to_keep_the_machine_on_for_now(lab, gate, work):
    desk = lab["desk"]
    plant(work, {f"many/{number}": "x" for number in range(SMALL.files_max)})
    done = desk("run", "--detach", "--cwd", str(work), *gate.words("cat", "in.txt"))
    word = done.stdout.strip()

    assert "grid: keep this machine on: the directory of job" in done.stderr, done.stderr
    awaited(lambda: is_safe(desk, word), lambda: job(desk, word))
    desk.kill()
    gate.open()
    assert over(lab["attic"], word) == {"succeeded"}, job(lab["attic"], word)


@pytest.mark.rows("S0-90")
def test_one_that_ran_elsewhere_finds_it_again_when_both_machines_die(lab, gate, work):
    desk = lab["desk"]
    word, node = begun(desk, work, "--avoid", "desk", *gate.words("cat", "in.txt"))
    awaited(lambda: is_safe(desk, word), lambda: job(desk, word))
    desk.kill()
    lab[node].kill()
    gate.open()

    for member in lab.members:
        if member.name not in ("desk", node):
            assert over(member, word) == {"succeeded"}, job(member, word)
            assert member.says("logs", word) == "seven\n"


def test_one_without_room_at_home_finds_it_again_as_well(lab, gate, work):
    desk = lab["desk"]
    busy = desk.says("run", "--detach", "--cpus", "2", "--node", "desk", *gate.words("true"))
    once(desk, busy.strip(), "running")
    word, node = begun(desk, work, *gate.words("cat", "in.txt"))
    assert node != "desk"
    awaited(lambda: is_safe(desk, word), lambda: job(desk, word))
    desk.kill()
    lab[node].kill()
    gate.open()

    for member in lab.members:
        if member.name not in ("desk", node):
            assert over(member, word) == {"succeeded"}, job(member, word)
            assert member.says("logs", word) == "seven\n"


def test_who_waits_until_it_is_safe_has_its_directory_packed(lab, gate, work):
    desk, *others = lab.members
    done = desk("run", "--detach", "--wait-safe", "--cwd", str(work), *gate.words("cat", "in.txt"))
    assert (done.returncode, "is safe" in done.stderr) == (0, True), done.stderr
    word = done.stdout.strip()
    desk.kill()
    gate.open()

    assert over(others[0], word) == {"succeeded"}
    assert others[0].says("logs", word) == "seven\n"


def test_what_may_not_travel_waits_for_its_machine_and_says_so(lab, gate, work):
    desk, attic, *_ = lab.members
    os.mkfifo(work / "pipe")
    words = gate.words("sh", "-c", "cat in.txt; pwd")
    done = desk("run", "--detach", "--wait-safe", "--cwd", str(work), *words)
    assert done.returncode == 0
    assert "is not safe: its directory cannot travel" in done.stderr
    assert "pipe" in done.stderr
    word = done.stdout.strip()
    once(desk, word, "running")
    desk.kill()
    why = "its directory was only on desk: it goes on when desk is back"
    awaited(lambda: job(attic, word).get("reason") == why, lambda: job(attic, word), 60)

    for member in lab.members[1:]:
        assert job(member, word)["state"] == "waiting"
        assert why in member.says("explain", word)
    assert "--ship" in attic.says("explain", word)
    gate.open()
    lab.bring_up([desk])
    lab.settled(lab.members)
    for member in lab.members:
        assert over(member, word) == {"succeeded"}, job(member, word)
    assert attic.says("logs", word) == f"seven\n{work}\n"
