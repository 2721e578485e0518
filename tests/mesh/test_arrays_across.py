"""Arrays, tries and clean goodbyes over several machines."""

import json

import pytest

from tests.mesh_jobs import PLAIN, job, over, submitted
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_wire(["desk", "attic", "barn"], PLAIN) as made:
        made.form(made.members)
        yield made


def test_what_failed_is_run_again_from_any_machine_where_it_was_submitted(lab):
    desk, attic, _ = lab.members
    script = "echo run $GRID_ARRAY_INDEX; test $GRID_ARRAY_INDEX -gt 1"
    failed = submitted(desk, "--node", "barn", "--array", "0-3", "--", "sh", "-c", script)
    assert over(desk, failed) == {"failed"}
    new = attic.says("rerun", "--failed", failed).strip()
    assert over(attic, new) == {"failed"}
    there = job(desk, new)

    assert there["array"]["indices"] == "0,1"
    assert {one["node"] for one in there["attempts"]} == {"barn"}
    assert attic.says("logs", new) == (
        f"==> {there['name']} 0 (exit 1) <==\nrun 0\n==> {there['name']} 1 (exit 1) <==\nrun 1\n"
    )


def test_one_index_that_runs_elsewhere_is_cancelled_from_a_third_machine(lab):
    desk, attic, _ = lab.members
    script = "test $GRID_ARRAY_INDEX != 1 || sleep 100"
    array = submitted(desk, "--node", "barn", "--array", "0-2", "--", "sh", "-c", script)
    awaited(lambda: job(desk, array)["array"]["succeeded"] == 2, lambda: job(desk, array))
    attic.says("cancel", array, "--index", "1")

    assert over(desk, array) == {"succeeded"}
    assert job(attic, array)["array"]["cancelled"] == 1


def test_who_went_down_cleanly_reads_down_and_is_not_waited_for(lab):
    desk, attic, barn = lab.members
    late = submitted(desk, "true")
    assert over(desk, late) == {"succeeded"}
    barn.says("down")
    for member in (desk, attic):
        awaited(lambda one=member: one.health()["barn"] == "down", member.health)

    # Who lists jobs looks at the others every moment; a node that is asked costs five seconds.
    awaited(lambda: "no answer" not in desk("jobs").stderr)
    assert ": silent" not in desk.says("nodes")

    barn.up()
    awaited(lambda: desk.health()["barn"] == "alive", desk.health)


def test_what_was_learnt_right_before_the_agent_stopped_is_known_when_it_starts_alone(lab):
    desk, attic, barn = lab.members
    attic.says("rename", "loft")
    awaited(lambda: "loft" in barn.health(), barn.health)
    barn.says("down")
    desk.says("down")
    attic.says("down")
    barn.up()

    assert "loft" in barn.health()
    attic.up()
    desk.up()
    for member in lab.members:  # The tests after this one find all of them well.
        awaited(lambda one=member: [*one.health().values()] == ["alive"] * 3, member.health)


def test_every_try_of_a_job_elsewhere_is_shown_once_also_when_that_machine_is_gone(lab):
    desk, attic, barn = lab.members
    script = 'echo try $GRID_ATTEMPT; test "$GRID_ATTEMPT" = 3'
    tried = submitted(desk, "--node", "barn", "--retries", "3", "--", "sh", "-c", script)
    assert over(desk, tried) == {"succeeded"}
    told = "try 1\ntry 2\ntry 3\n"
    copies = desk.home / "jobs" / tried
    awaited(lambda: len(list(copies.glob("copy.*"))) == 3, lambda: list(copies.glob("*")))

    assert desk.says("logs", tried) == attic.says("logs", "--follow", tried) == told
    barn.says("down")
    awaited(lambda: attic.health()["barn"] == "down")
    assert desk.says("logs", tried) == attic.says("logs", tried) == told
    barn.up()
    awaited(lambda: desk.health()["barn"] == "alive", desk.health)


def test_files_of_what_ran_elsewhere_are_written_where_it_was_submitted(lab, tmp_path):
    desk, _, _ = lab.members
    words = ("--node", "barn", "--cwd", str(tmp_path), "--array", "1-40%2", "-o", "logs/%a")
    (tmp_path / "logs").mkdir()
    array = submitted(desk, *words, "--", "sh", "-c", "echo told $GRID_ARRAY_INDEX")
    desk.says("wait", array)
    found = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}

    assert found == {str(index): f"told {index}\n" for index in range(1, 41)}


def test_what_each_of_many_indices_wrote_is_found_on_whichever_machine_ran_it(lab):
    desk, attic, barn = lab.members
    script = "echo told $GRID_ARRAY_INDEX by $GRID_NODE; test $GRID_ARRAY_INDEX != 3"
    array = submitted(desk, "--array", "0-299", "--", "sh", "-c", script)
    assert over(desk, array) == {"failed"}
    assert job(desk, array)["array"]["failed"] == 1
    by_index = {}
    for told in json.loads(attic.says("logs", array, "--all", "--json")):
        assert told["stdout"].startswith(f"told {told['index']} by ")
        by_index[told["index"]] = told["stdout"].split()[-1]
    by_whom = {
        node: [at for at, by in by_index.items() if by == node]
        for node in ("desk", "attic", "barn")
    }

    assert sorted(by_index) == [*range(300)]
    assert len(by_whom["desk"]) > 30
    assert sum(map(len, by_whom.values())) - len(by_whom["desk"]) > 30
    assert "told 3 by" in attic.says("logs", array)

    copies = desk.home / "jobs" / array
    elsewhere = by_index[3] != "desk"
    awaited(lambda: len(list(copies.glob("copy.*"))) == elsewhere, lambda: list(copies.glob("*")))
    desk.says("down")
    desk.up()  # It is not forgotten over a start either.
    some = next(at for at, by in by_index.items() if by != "desk")
    assert desk.says("logs", array, "--index", str(some)) == f"told {some} by {by_index[some]}\n"
    awaited(lambda: attic.health()["desk"] == barn.health()["desk"] == "alive")
