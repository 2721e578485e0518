"""No single death loses an acknowledged job: five real machines, real kills, real cuts.

One fleet for all tests: each leaves it whole. Jobs wait at a gate, so that nothing is a matter of
how long something takes.
"""

import contextlib
import json

import pytest

from distributed_grid.kernel.across.shelf import GRACE_MS
from tests.mesh_jobs import (
    ENDED,
    PLAIN,
    Gate,
    age,
    all_see,
    cut,
    disk,
    heal,
    holders,
    job,
    listed,
    once,
    over,
    submitted,
    told,
    tries,
)
from tests.mesh_lab import MeshLab, awaited, passed

pytestmark = pytest.mark.slow

NAMES = ("desk", "attic", "barn", "cellar", "tower")
SOON_MS = 1_000  # From the verdict to the next grant.
MANY = 1_000  # Processes in all.
LONG_S = 12  # Longer than verdicts, takeovers and missing nodes take.


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire(NAMES, config=PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def lab(fleet):
    yield fleet
    heal(fleet)
    for member in fleet.members:
        member.resume()
        with contextlib.suppress(OSError):
            member("cancel", *(word for word, now in listed(member).items() if now not in ENDED))
    fleet.bring_up(member for member in fleet.members if not member.pids())
    fleet.settled(fleet.members)


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def agreed(lab: MeshLab, words: list[str]) -> None:
    """Until every node says of all jobs that they succeeded, in one job and in the list."""
    wanted = dict.fromkeys(words, "succeeded")
    for member in lab.members:
        awaited(
            lambda member=member: listed(member).items() >= wanted.items(),
            lambda member=member: (member.name, [job(member, word) for word in words]),
            60,
        )
    views = [listed(member) for member in lab.members]
    awaited(lambda: len({json.dumps(listed(each), sort_keys=True) for each in lab.members}) == 1,
            lambda: views)  # fmt: skip


@pytest.mark.rows("S0-91", "S0-92")
def test_the_submitter_dies_and_its_jobs_finish_elsewhere(lab, gate):
    desk, *others = lab.members
    far = submitted(desk, "--node", "attic", *gate.words("echo", "far"))
    here = submitted(desk, "--cpus", "2", *gate.words("echo", "here"))
    once(desk, far, "running")
    once(desk, here, "running")
    desk.kill()
    gate.open()

    for word, text in ((far, "far\n"), (here, "here\n")):
        for member in others:
            assert over(member, word) == {"succeeded"}
            assert member.says("logs", word) == text
        assert "taken over" in others[0].says("job", word)
    assert tries(others[0], far) == ["attic"], "what ran elsewhere went on"


@pytest.mark.rows("S0-89", "S0-91")
def test_the_executing_node_dies_and_the_job_is_placed_again_at_once(lab, gate):
    desk = lab["desk"]
    word = submitted(desk, "--avoid", "desk", *gate.words("echo", "again"))
    host = lab[once(desk, word, "running")["node"]]
    host.kill()
    awaited(lambda: job(desk, word)["node"] not in (host.name, None), lambda: job(desk, word), 30)
    gate.open()

    verdict = [one for one in desk.events("node.dead") if one.fields["name"] == host.name][-1]
    granted_ms = told(desk, word, "granted")[-1][0]
    assert granted_ms - verdict.at_ms <= SOON_MS
    assert over(desk, word) == {"succeeded"}
    assert desk.says("logs", word) == "again\n"


def test_a_machine_that_died_and_is_back_disturbs_nobody(lab, gate):
    desk = lab["desk"]
    word = submitted(desk, "--avoid", "desk", *gate.words("echo", "once more"))
    host = lab[once(desk, word, "running")["node"]]
    host.kill()
    awaited(lambda: job(desk, word)["node"] not in (host.name, None), lambda: job(desk, word), 30)
    second = once(desk, word, "running")["node"]
    lab.bring_up([host])
    lab.settled(lab.members)
    late = f"an attempt on {host.name} that was given up has ended"
    awaited(lambda: late in desk.says("job", word), lambda: job(desk, word), 30)
    gate.open()

    assert over(desk, word) == {"succeeded"}
    assert tries(desk, word) == [host.name, second]
    assert desk.says("logs", word) == "once more\n"


def test_submitter_and_executor_die_together(lab, gate):
    desk = lab["desk"]
    word = submitted(desk, "--avoid", "desk", *gate.words("echo", "both"))
    host = lab[once(desk, word, "running")["node"]]
    desk.kill()
    host.kill()
    gate.open()
    left = [member for member in lab.members if member not in (desk, host)]

    for member in left:
        assert over(member, word) == {"succeeded"}
        assert member.says("logs", word) == "both\n"


def test_a_guardian_and_the_submitter_die_together(lab, gate):
    desk = lab["desk"]
    word = submitted(desk, "--node", "attic", "--node", "barn", *gate.words("echo", "kept"))
    host = lab[once(desk, word, "running")["node"]]
    kept = awaited(lambda: len(found := holders(lab, word)) == 3 and found)
    guardian = next(member for member in kept if member is not host)
    desk.kill()
    guardian.kill()
    gate.open()

    for member in lab.members:
        if member not in (desk, guardian):
            assert over(member, word) == {"succeeded"}
            assert member.says("logs", word) == "kept\n"


@pytest.mark.parametrize("alone", [2, 1], ids=["2|3", "1|4"])
def test_both_sides_of_a_cut_go_on_and_are_one_again(lab, gate, alone):
    """Longer than every timeout; work of each side runs on the other, and each takes more."""
    left, right = lab.members[:alone], lab.members[alone:]
    across = [
        submitted(left[0], "--node", right[0].name, *gate.words("echo", "over")),
        submitted(right[0], "--node", left[-1].name, *gate.words("echo", "over")),
    ]
    for word, member in zip(across, (left[0], right[0]), strict=True):
        once(member, word, "running")
    cut(lab, left, right)
    all_see(left, right, "dead")
    all_see(right, left, "dead")
    during = [
        submitted(member, "--array", "0-3", "true")
        for member in (*left, *right)
    ]  # fmt: skip
    passed(LONG_S)
    for member, word in zip((*left, *right), during, strict=True):
        assert over(member, word) == {"succeeded"}
    gate.open()
    heal(lab)
    lab.settled(lab.members)

    agreed(lab, [*across, *during])


def test_a_wire_that_comes_and_goes_loses_nothing_and_runs_nothing_twice_at_once(
    lab, gate, tmp_path
):
    """Each time for as long as a verdict takes, or half of it; each side takes work meanwhile."""
    left, right = lab.members[:2], lab.members[2:]
    alone = ("flock", "-n", f"{tmp_path}/alone")  # A second one at the same time would fail.
    words = [
        submitted(left[0], "--node", right[0].name, "--at-most-once", *alone, *gate.words("true")),
        submitted(right[0], "--node", left[0].name, *gate.words("echo", "over")),
    ]
    for word in words:
        once(left[0], word, "running")
    for away_s in (1.5, 3, 1.5, 3, 1.5):
        cut(lab, left, right)
        words += [submitted(side[-1], "--avoid", "desk", "true") for side in (left, right)]
        passed(away_s)
        heal(lab)
        passed(1.5)
    gate.open()
    lab.settled(lab.members)

    agreed(lab, words)


def test_who_cannot_answer_its_home_tells_it_later(lab, gate, tmp_path):
    """One way only: nobody is dead, and the one attempt counts."""
    desk = lab["desk"]
    word = submitted(
        desk, "--node", "attic", *gate.words("sh", "-c", f"echo late; touch {tmp_path}/ran")
    )
    once(desk, word, "running")
    lab.host("desk").deafen(lab.host("attic").address)
    gate.open()
    awaited((tmp_path / "ran").exists)
    passed(LONG_S)
    heal(lab)

    assert over(desk, word) == {"succeeded"}
    assert tries(desk, word) == ["attic"]
    assert desk.says("logs", word) == "late\n"


def test_a_machine_that_slept_gives_up_what_others_took_and_keeps_what_it_runs(lab, gate):
    desk, attic, barn = lab["desk"], lab["attic"], lab["barn"]
    home = submitted(attic, "--node", "barn", *gate.words("echo", "home"))
    host = submitted(desk, "--node", "attic", "--node", "barn", *gate.words("echo", "host"))
    for member, word in ((attic, home), (desk, host)):
        once(member, word, "running")
    attic.pause()
    all_see([desk, barn], [attic], "dead")
    awaited(lambda: told(desk, home, "taken over"), lambda: job(desk, home), 60)
    attic.resume()
    lab.settled(lab.members)
    gate.open()

    agreed(lab, [home, host])
    assert tries(desk, home) == ["barn"]


def test_a_machine_with_another_address_goes_on_with_its_jobs(lab, gate):
    desk, attic = lab["desk"], lab["attic"]
    words = [
        submitted(desk, "--node", "attic", *gate.words("echo", "moved")),
        submitted(attic, "--node", "desk", *gate.words("echo", "moved")),
    ]
    for word in words:
        once(desk, word, "running")
    lab.host("attic").move("10.77.0.102")
    gate.open()
    lab.settled(lab.members)

    agreed(lab, words)
    assert lab["tower"].says("logs", words[0]) == "moved\n"


def test_who_was_away_for_too_long_runs_only_what_others_say_is_unfinished(lab, gate, tmp_path):
    desk, attic, ran = lab["desk"], lab["attic"], tmp_path / "ran"
    full = submitted(attic, "--node", "attic", "--cpus", "2", *gate.words("true"))
    once(attic, full, "running")
    words = {
        name: submitted(
            attic,
            "--node",
            "attic",
            "--wait-for-capacity",
            "--",
            "sh",
            "-c",
            f"echo {name} >>{ran}",
        )
        for name in ("wanted", "unwanted")
    }
    attic.kill()
    awaited(
        lambda: told(desk, words["unwanted"], "taken over"),
        lambda: (job(desk, words["unwanted"]), desk.health(), desk.log[-3000:]),
        60,
    )
    desk.says("cancel", words["unwanted"], full)
    once(desk, words["unwanted"], "cancelled")
    age(attic, GRACE_MS + 3_600_000)
    attic.up()

    for member in (desk, attic):
        assert over(member, words["wanted"]) == {"succeeded"}
        assert over(member, words["unwanted"]) == {"cancelled"}
    assert ran.read_text() == "wanted\n"


def test_what_nobody_remembers_after_a_long_time_runs_when_a_person_says_so(lab, gate):
    attic = lab["attic"]
    full = submitted(attic, "--node", "attic", "--cpus", "2", *gate.words("true"))
    once(attic, full, "running")
    word = submitted(attic, "--node", "attic", "--wait-for-capacity", "echo", "again")
    awaited(lambda: len(holders(lab, word)) == 3)
    for member in lab.members:
        member.kill()
    for member in lab.members:
        with disk(member) as base:
            base.execute("DELETE FROM held")
    age(attic, GRACE_MS + 3_600_000)
    lab.bring_up(lab.members)
    awaited(lambda: [one for one in attic.events("job.untracked") if one.job == word], within_s=60)
    assert job(attic, word)["attempts"] == []
    lab["desk"].says("requeue", word)

    assert over(attic, word) == {"succeeded"}
    gate.open()


def test_agents_start_again_in_turn_while_a_thousand_processes_run(lab, gate):
    """An array from each of five machines, each index of it a process that waits at the gate."""
    share = ("--cpus", "0.01", "--array", f"0-{MANY // 5 - 1}")
    words = {member: submitted(member, *share, *gate.words("true")) for member in lab.members}

    def all_run() -> bool:
        counts = (job(member, word)["array"]["running"] for member, word in words.items())
        return all(count == MANY // 5 for count in counts)

    awaited(all_run, lambda: [job(*one)["array"] for one in words.items()], 120)
    for member in lab.members:
        before = member.pids("agent")
        member.kill("agent")
        awaited(lambda m=member, b=before: m.nodes() and m.pids("agent") != b)
    lab.settled(lab.members)
    awaited(all_run, lambda: [job(*one)["array"] for one in words.items()], 60)
    gate.open()

    for home, word in words.items():
        for member in (home, *lab.members):
            seen = once(member, word, *ENDED, within_s=120)
            assert (seen["state"], seen["array"]["succeeded"]) == ("succeeded", MANY // 5)
        assert not told(home, word, "lost")
