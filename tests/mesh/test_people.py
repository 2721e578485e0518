"""People and their machines: what is mine is used as mine, what is another's is borrowed.

Alice has a laptop, a desk and an attic, all of them busy and lending nothing; Bob has a box.
"""

import pytest

from tests.mesh_jobs import Gate, job, once, over, submitted
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

# By every threshold there is this machine is too busy to lend anything.
BUSY = "pretend: {cpus: 4, memory: 16GiB, load: {cpu_percent: 95, idle_seconds: 1}}\n"
OWN = ("laptop", "desk", "attic")


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        laptop = made.member("laptop", config=BUSY).up()
        for name in OWN[1:]:
            made.member(name, config=BUSY).up("--join", laptop.ticket())
        made.member("box", config=BUSY).up("--join", laptop.ticket("--for", "bob"))
        made.settled(made.members)
        yield made


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def people(member) -> dict[str, str]:
    return {name: node.person for name, node in member.nodes().items()}


def test_everybody_sees_whose_each_machine_is(lab):
    me = lab["laptop"].nodes()["laptop"].person
    for name in (*OWN, "box"):  # Another test adds one, and throws it out.
        seen = people(lab[name])
        assert {each: seen[each] for each in (*OWN, "box")} == dict.fromkeys(OWN, me) | {
            "box": "bob"
        }
    assert "bob" in lab["desk"].says("nodes")
    known = lab["laptop"]("ticket", "--for", "bob")
    assert known.returncode == 5
    assert f"--for id:{lab['desk'].nodes()['box'].person_id[:12]}" in known.stderr
    assert lab["laptop"]("ticket", "--for", "a/b").returncode == 2
    assert lab["laptop"]("ticket", "--for", "id:0000").returncode == 3


def test_the_offer_says_who_owns_and_who_borrows(lab):
    me = people(lab["desk"])["desk"]
    first = lab["desk"].says("offer").splitlines()[0]
    assert first == (
        f"Your machines ({me}: desk, attic, laptop) use all that is free here;"
        " others (bob) borrow what the terms below allow."
    )


def test_my_job_array_and_gang_start_on_my_busy_machine_that_lends_nothing(lab, gate):
    laptop, desk = lab["laptop"], lab["desk"]
    desk.says("offer", "nothing")
    words = [
        submitted(laptop, "--node", "desk", *gate.words("true")),
        submitted(laptop, "--node", "desk", "--priority", "urgent", *gate.words("true")),
    ]
    for word in words:
        assert once(laptop, word, "running")["node"] == "desk"
    where = ("-r", "cpu", "-a", "1", "-n", "desk", "--strict-nodes")
    shared = laptop.says("run-shared", *where, "--", "sh", "-c", "echo $GRID_NODE")
    assert shared.endswith("desk\n")
    assert "borrowed" not in desk.says("offer")
    gate.open()
    array = submitted(laptop, "--node", "desk", "--array", "0-5", "true")
    gang = submitted(laptop, "--gang", "3", "--cpus", "3", "true")
    assert over(laptop, *words, array, gang) == {"succeeded"}
    assert {one["node"] for one in job(laptop, array)["attempts"]} == {"desk"}
    assert {one["node"] for one in job(laptop, gang)["attempts"]} == set(OWN)


def test_a_strangers_job_waits_with_its_reason_until_something_is_lent(lab):
    box, desk = lab["box"], lab["desk"]
    desk.says("offer", "nothing")
    word = submitted(box, "--node", "desk", "true")
    awaited(lambda: "desk: this node does not lend" in box.says("explain", word))
    assert job(box, word)["state"] == "waiting"
    desk.says("offer", "all")
    assert over(box, word) == {"succeeded"}
    desk.says("offer", "reset")


def test_only_the_owner_and_admins_drain_a_machine(lab):
    done = lab["box"]("drain", "attic")
    assert done.returncode == 5
    assert "Ask the owner or an admin" in done.stderr
    assert lab["box"]("undrain", "attic").returncode == 5
    assert not lab["laptop"].nodes()["attic"].is_draining
    assert "drained" in lab["desk"].says("drain", "attic")  # The same person's, and no admin's.
    assert "takes work" in lab["desk"].says("undrain", "attic")
    assert "drained" in lab["laptop"].says("drain", "box")  # An admin's.
    assert "takes work" in lab["box"].says("undrain", "box")


def test_a_stolen_machine_is_kicked_by_another_of_its_owners_and_all_heed_that(lab):
    laptop, desk, box = (lab[name] for name in ("laptop", "desk", "box"))
    stolen = lab.member("stolen", config=BUSY).up("--join", laptop.ticket())
    lab.settled(lab.members)
    assert box("kick", "stolen").returncode == 5, "of another person, and no admin's"
    assert desk("kick", "laptop").returncode == 5, "an admin's is above that"
    assert "is revoked" in desk.says("kick", "stolen")
    rest = [member for member in lab.members if member is not stolen]
    for member in rest:
        awaited(lambda member=member: "stolen" not in member.nodes())
    awaited(lambda: stolen("kick", "desk").returncode != 0)  # It cannot do the same afterwards.
    box.down()
    box.up()
    lab.settled(rest)
    assert "stolen" not in box.nodes()
    back = stolen("join", laptop.ticket())
    assert back.returncode != 0
    assert "--new-identity" in back.stderr
    assert all(how == "alive" for how in laptop.health().values())
    stolen.down()


def test_no_guest_of_mine_is_evicted_for_a_job_that_runs_elsewhere(lab, gate):
    laptop, desk, box = lab["laptop"], lab["desk"], lab["box"]
    desk.says("offer", "all")
    guest = submitted(box, "--node", "desk", "--cpus", "4", *gate.words("true"))
    assert once(box, guest, "running")["node"] == "desk"
    awaited(lambda: laptop.nodes()["desk"].cpu_milli_free == 0)
    done = desk("run", "--ship", "none", "--cpus", "4", "--", "sh", "-c", "echo $GRID_NODE")
    assert done.stdout.strip() in {"laptop", "attic"}
    gate.open()
    assert over(box, guest) == {"succeeded"}
    assert [one["node"] for one in job(box, guest)["attempts"]] == ["desk"]
    desk.says("offer", "reset")
