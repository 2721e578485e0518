"""The same commands on many machines: any node takes any job, and answers for it."""

import json

import pytest

from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted, told, tries
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

LAPTOP = "node: {labels: {room: attic}}\n" + PLAIN.replace("cpus: 2", "cpus: 4, class: laptop")
FLEET = {"desk": PLAIN, "attic": LAPTOP, "barn": PLAIN}


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_wire(FLEET, FLEET) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def desk(lab):
    return lab["desk"]


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def test_output_and_exit_code_come_back_from_the_node_that_was_named(desk):
    done = desk("run", "--node", "attic", "--", "sh", "-c", "echo out; echo err >&2; exit 3")

    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_job_with_long_arguments_travels_like_any_other(lab, desk):
    """A word about it is longer than any gossip: once, such a word ended the link."""
    long = ("sh", "-c", "echo ${#1}", "sh", "x" * 120_000)

    assert desk.says("run", "--node", "attic", "--", *long) == "120000\n"
    word = submitted(desk, "--copies", "3", "--node", "barn", "--", *long)
    assert lab["attic"]("wait", word).returncode == 0


def test_every_node_answers_for_a_job_of_another(lab, desk):
    word = submitted(desk, "--node", "barn", "--", "sh", "-c", "echo 1; echo 2")

    for member in lab.members:
        assert member("wait", word).returncode == 0
        assert member.says("logs", word) == "1\n2\n"
        seen = job(member, word)
        assert (seen["state"], seen["node"]) == ("succeeded", "barn")
    assert word[:12] in lab["attic"].says("jobs")


def test_a_job_is_cancelled_from_anywhere(lab, desk, gate):
    word = submitted(desk, "--node", "barn", *gate.words("true"))
    once(desk, word, "running")
    lab["attic"].says("cancel", word)

    assert lab["barn"]("wait", word).returncode == 125
    assert job(desk, word)["state"] == "cancelled"


def test_classes_labels_and_what_to_avoid_choose_the_node(desk):
    for words, node in (
        (("--on-class", "laptop"), "attic"),
        (("--label", "room=attic"), "attic"),
        (("--avoid", "desk", "--avoid", "attic"), "barn"),
    ):
        word = submitted(desk, *words, "--", "true")
        assert desk("wait", word).returncode == 0
        assert job(desk, word)["node"] == node
    done = desk("run", "--on-class", "datacenter", "true")
    assert done.returncode == 125


def test_a_node_is_called_by_the_beginning_of_its_id_and_nobody_is_avoided_by_mistake(lab, desk):
    attic, barn = (
        json.loads(lab[name].says("status", "--json"))["id"][:12] for name in ("attic", "barn")
    )
    for words in (("--node", attic), ("--avoid", "desk", "--avoid", barn)):
        word = submitted(desk, *words, "--", "true")
        assert desk("wait", word).returncode == 0
        assert job(desk, word)["node"] == "attic"
    done = desk("run", "--avoid", "nosuchnode", "--", "true")
    assert done.returncode == 125
    assert "there is no node 'nosuchnode'" in done.stderr


def test_a_directory_that_is_not_here_is_refused_before_a_job_leaves_without_it(desk):
    done = desk("run", "--node", "attic", "--cwd", "/nonexistent", "--", "pwd")

    assert (done.returncode, done.stdout) == (2, "")
    assert "/nonexistent cannot be sent as it is" in done.stderr


def test_what_does_not_fit_at_home_runs_elsewhere(desk):
    assert desk.says("run", "--cpus", "4", "--", "sh", "-c", "echo $GRID_CPUS") == "4\n"


@pytest.mark.rows("S0-63")
def test_an_array_uses_every_node(desk):
    word = submitted(desk, "--name", "many", "--array", "0-99", "--", "sleep", "0.1")

    assert desk("wait", word).returncode == 0
    assert job(desk, word)["array"]["succeeded"] == 100
    assert set(tries(desk, word)) == set(FLEET)


def test_a_job_comes_after_one_of_another_node(lab, desk):
    first = submitted(desk, "--node", "desk", "--", "true")
    done = lab["barn"]("run", "--after", f"{first}:ok", "--", "echo", "later")

    assert (done.returncode, done.stdout) == (0, "later\n")


def test_a_node_that_is_drained_gives_its_work_away_and_takes_none(lab, desk, gate):
    barn = lab["barn"]
    runs = submitted(desk, "--avoid", "desk", "--avoid", "attic", *gate.words("true"))
    moves = submitted(desk, "--avoid", "desk", "--cpus", "0.5", *gate.words("echo", "moved"))
    awaited(lambda: {job(desk, word)["state"] for word in (runs, moves)} == {"running"})
    assert "drained" in desk.says("drain", "barn")
    waits = submitted(desk, "--node", "barn", "--wait-for-capacity", "true")
    named = submitted(desk, "--node", "barn", "true")
    assert "grid undrain barn" in desk.says("explain", named)
    assert job(desk, waits)["state"] == "waiting"
    assert barn.nodes()["barn"].jobs_running <= 1
    gate.open()
    assert over(desk, moves) == {"succeeded"}
    desk.says("undrain", "barn")

    assert over(desk, runs, waits, named) == {"succeeded"}
    assert job(desk, waits)["node"] == job(desk, named)["node"] == "barn"


def test_a_node_is_drained_only_when_outputs_of_guests_are_home(lab, desk, gate, tmp_path):
    barn, work = lab["barn"], tmp_path / "work"
    work.mkdir()
    words = ("--cwd", str(work), "--ship", str(work), "--output", "g", "--node", "barn")
    word = submitted(desk, *words, "--", *gate.words("sh", "-c", "echo made >g"))
    once(desk, word, "running")
    desk.pause()
    try:
        gate.open()
        asked = ("drain", "barn", "--json")
        left = awaited(lambda: (view := json.loads(barn.says(*asked)))["jobs_leaving"] and view)
        assert left["state"] == "draining"
    finally:
        desk.resume()

    assert "is drained: it has no work" in barn.says("drain", "--wait", "barn")
    assert over(desk, word) == {"succeeded"}
    assert (tries(desk, word), (work / "g").read_text()) == (["barn"], "made\n")
    desk.says("undrain", "barn")


def test_a_job_that_nobody_can_take_now_says_why_everywhere(lab, desk):
    word = submitted(desk, "--node", "tower", "--wait-for-capacity", "true")

    for member in lab.members:
        assert "waits for room on another node" in member.says("explain", word)
    desk.says("cancel", word)


def test_every_node_shows_the_whole_mesh_and_decides_alike(lab, desk, gate, tmp_path):
    word = submitted(desk, "--node", "attic", *gate.words("true"))
    once(desk, word, "running")
    (tmp_path / "job.json").write_text('{"name": "what-if", "cpus": 1}')

    def answers() -> list[dict]:
        asked = ("place", "--live", "--job", str(tmp_path / "job.json"), "--json")
        return [json.loads(member.says(*asked)) for member in lab.members]

    def alike() -> list[dict]:
        said = answers()
        return said if len({one["snapshot"] for one in said}) == 1 else []

    for member in lab.members:
        seen = json.loads(member.says("top", "--json"))
        assert {one["name"] for one in seen["nodes"]} == set(FLEET)
        assert word in {one["id"] for one in seen["running"]}
    said = awaited(alike, answers)
    assert len({json.dumps(one["cluster"]) for one in said}) == 1


def test_urgent_work_of_one_node_displaces_that_of_another_on_a_third(lab, desk, gate):
    low = submitted(
        desk, "--node", "barn", "--cpus", "2", "--priority", "low", *gate.words("echo", "low")
    )
    once(desk, low, "running")
    urgent = lab["attic"](
        "run", "--node", "barn", "--cpus", "2", "--priority", "urgent", "--", "echo", "urgent"
    )

    assert (urgent.returncode, urgent.stdout) == (0, "urgent\n"), urgent.stderr
    gate.open()
    assert over(desk, low) == {"succeeded"}
    assert told(desk, low, "waiting"), job(desk, low)
