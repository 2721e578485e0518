"""A node is its key on its machine: what happens when a data directory is copied."""

import shutil
import stat

import pytest

from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow

OTHER_MACHINE = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        made.form([made.member("desk"), made.member("attic")])
        yield made


def copied(lab: MeshLab, name: str, *, machine_id: str = "") -> tuple[Member, Member]:
    """A member, which is down, and a copy of its directory."""
    original = lab.member(name).up("--join", f"@{lab['desk'].root / 'ticket'}")
    awaited(lambda: original.health().get("attic") == "alive", original.health)
    original.down()
    copy = lab.member(name, machine_id=machine_id)
    shutil.copytree(original.home, copy.home)
    return original, copy


def test_a_copy_on_another_machine_does_not_start_and_says_what_to_do(lab):
    _, copy = copied(lab, "moving", machine_id=OTHER_MACHINE)
    said = copy.start_up().communicate("", timeout=60)[1]

    assert "holds the identity of another machine" in said
    assert "grid up --new-identity" in said
    assert "grid up --moved-here" in said
    awaited(lambda: not copy.pids())
    # The owner says that it was moved for good.
    node = lab["desk"].nodes()["moving"].id
    copy.up("--moved-here")
    awaited(lambda: copy.nodes().get("desk") and lab["desk"].health()["moving"] == "alive")
    assert lab["desk"].nodes()["moving"].id == node
    assert ("mesh.clone", "moving") not in lab["desk"].told("mesh.clone")
    # From now on it is there without being told, and the old machine has to be told.
    copy.down()
    copy.up()
    awaited(lambda: lab["desk"].health()["moving"] == "alive")


def test_a_copy_may_become_a_node_of_its_own(lab):
    original, copy = copied(lab, "twin", machine_id=OTHER_MACHINE)
    copy.up("--new-identity")

    assert list(copy.health()) == ["twin"]  # Alone: the membership was the other one's.
    original.up()
    copy.says("join", f"@{lab['desk'].root / 'ticket'}")
    names = lambda: [name for name in lab["desk"].health() if name.startswith("twin")]  # noqa: E731
    awaited(lambda: len(names()) == 2, names)
    for name in names():
        awaited(lambda name=name: lab["desk"].health()[name] == "alive", lab["desk"].health)
    assert not {("mesh.clone", name) for name in names()} & set(lab["desk"].told("mesh.clone"))


def test_two_that_run_with_one_key_are_noticed_on_both_ends(lab):
    """One machine, or two whose ids were copied with their disks: no start can tell."""
    original, copy = copied(lab, "double")
    original.up()
    awaited(lambda: original.health().get("attic") == "alive")
    copy.up()
    witness = lab["desk"]
    awaited(lambda: witness.events("mesh.clone"), witness.told)

    awaited(lambda: "double" in dict(witness.told("mesh.clone")).values())
    assert "two machines use this key" in witness.nodes()["double"].note
    assert "two machines use this key" in witness.says("nodes")
    for end in (original, copy):
        awaited(lambda end=end: end.events("mesh.clone"), end.told)
        note = end.nodes()["double"].note
        assert "two machines use this key" in note
        assert "--new-identity" in note
        doctor = end("doctor").stdout
        assert "two machines use this key" in doctor
        assert "--new-identity" in doctor
    # As it says: one of them becomes another node, and all is well again.
    copy.down()
    copy.up("--new-identity")
    awaited(lambda: witness.health()["double"] == "alive", witness.health)


def test_a_founder_that_lost_the_key_of_its_mesh_says_so_and_how_to_get_it_back(lab):
    founder = lab.member("founder", net=lab.network()).up()
    founder.ticket()
    key, told = founder.home / "mesh-authority.key", "mesh-authority.key is lost"
    assert told not in founder("doctor").stdout
    founder.down()
    key.unlink()
    founder.up()

    assert told in founder.log
    assert str(key) in founder.log
    assert told in founder.nodes()["founder"].note
    doctor = founder("doctor").stdout
    assert told in doctor
    assert "Copy the recovery key to mesh-authority.key" in doctor
    founder.down()
    shutil.copy(next(founder.home.glob("grid-recovery-*.key")), key)
    founder.up()
    assert founder.nodes()["founder"].note == ""
    assert told not in founder("doctor").stdout


@pytest.mark.rows("S2-141")
def test_keys_are_readable_by_their_owner_alone(lab):
    for member in lab.members[:2]:
        keys = [file for file in member.home.rglob("*") if file.suffix in {".key", ".recovery"}]
        assert keys
        for file in keys:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert stat.S_IMODE(member.home.stat().st_mode) == 0o700
        secrets = [file.read_bytes() for file in keys]
        said = [member.says("nodes", "--json"), member.says("events", "--json"), member.log]
        for secret in secrets:
            assert secret.hex() not in "".join(said)


def test_a_name_of_the_mesh_is_that_of_its_jobs_too_and_remembered(lab):
    """Renamed, and started again by somebody who does not name it."""
    node = lab.member("tray").up("--join", f"@{lab['desk'].root / 'ticket'}")
    node.says("rename", "shelf")
    for _ in range(2):
        node.says("run", "--node", "shelf", "true")

        assert {job["attempts"][-1]["node"] for job in node.json("jobs")} == {"shelf"}
        node.down()
        node.says("up", "--detach")
    assert node.json("status")["name"] == "shelf"
