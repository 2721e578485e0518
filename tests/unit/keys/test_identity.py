"""Does a node notice that its data directory is on another machine, and say what to do?"""

import shutil
import stat

import pytest

from distributed_grid.edges.keys import (
    Key,
    KeyUnusable,
    create_authority,
    load_authority,
    load_identity,
    set_authority_aside,
)
from distributed_grid.errors import IdentityMoved


def test_the_first_start_makes_an_identity_and_the_next_finds_it(tmp_path):
    first = load_identity(tmp_path, machine="here")
    again = load_identity(tmp_path, machine="here")

    assert (first.is_new, again.is_new) == (True, False)
    assert first.node == again.node == first.key.public
    assert again.machine == "here"
    assert stat.S_IMODE((tmp_path / "identity.json").stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"identity.key", "identity.json"}


def test_a_copied_data_directory_is_noticed_and_the_message_says_what_to_do(tmp_path):
    first = load_identity(tmp_path / make(tmp_path, "a"), machine="here")
    shutil.copytree(tmp_path / "a", tmp_path / "b")

    with pytest.raises(IdentityMoved) as caught:
        load_identity(tmp_path / "b", machine="there")

    assert caught.value.node == first.node
    for words in ("--new-identity", "--moved-here", "remove it"):
        assert words in caught.value.remedy
    assert load_identity(tmp_path / "a", machine="here").node == first.node


def make(tmp_path, name):
    (tmp_path / name).mkdir()
    return name


@pytest.mark.parametrize(
    "body", [None, b"", b"junk", b"{}", b'{"machine": 3}', b'{"machine": "\xff"}']
)
def test_a_key_whose_binding_is_missing_or_broken_came_from_elsewhere(tmp_path, body):
    load_identity(tmp_path, machine="here")
    (tmp_path / "identity.json").unlink()
    if body is not None:
        (tmp_path / "identity.json").write_bytes(body)

    with pytest.raises(IdentityMoved):
        load_identity(tmp_path, machine="here")


def test_a_machine_whose_id_changed_for_good_keeps_its_node(tmp_path):
    first = load_identity(tmp_path, machine="here")
    moved = load_identity(tmp_path, machine="there", when_moved="moved-here")

    assert (moved.node, moved.is_new) == (first.node, False)
    assert load_identity(tmp_path, machine="there").node == first.node
    with pytest.raises(IdentityMoved):
        load_identity(tmp_path, machine="here")


@pytest.mark.parametrize("machine", ["here", "there"])
def test_a_new_identity_is_another_node_and_nothing_is_lost(tmp_path, machine):
    first = load_identity(tmp_path, machine="here")
    authority = create_authority(tmp_path).key
    second = load_identity(tmp_path, machine=machine, when_moved="new-identity")

    assert second.is_new
    assert second.node != first.node
    assert Key.from_file(tmp_path / f"identity-{first.node[:8]}.key").public == first.node
    assert load_authority(tmp_path) is None
    assert (tmp_path / f"mesh-authority-{authority.public[:8]}.key").exists()
    assert load_identity(tmp_path, machine=machine).node == second.node


def test_a_new_identity_can_be_had_where_there_was_none_or_a_broken_one(tmp_path):
    assert load_identity(tmp_path, machine="here", when_moved="new-identity").is_new

    (tmp_path / "identity.key").write_bytes(b"short")
    with pytest.raises(KeyUnusable):
        load_identity(tmp_path, machine="here")

    assert load_identity(tmp_path, machine="here", when_moved="new-identity").is_new
    assert (tmp_path / "identity-unusable.key").read_bytes() == b"short"


def test_a_start_that_was_cut_short_before_the_key_was_written_is_repeated(tmp_path):
    load_identity(tmp_path, machine="there")
    (tmp_path / "identity.key").unlink()

    assert load_identity(tmp_path, machine="here").is_new
    assert not load_identity(tmp_path, machine="here").is_new


def test_an_identity_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(KeyUnusable, match="cannot be written"):
        load_identity(tmp_path / "missing", machine="here")


def test_an_identity_shows_no_secret(tmp_path):
    identity = load_identity(tmp_path, machine="here")

    assert identity.key.secret().hex() not in repr(identity)
    assert repr(identity.key.secret()) not in repr(identity)


def test_the_authority_has_a_recovery_copy_where_it_was_asked_for(tmp_path):
    safe = tmp_path / make(tmp_path, "safe")
    key, recovery = create_authority(tmp_path, safe)

    assert recovery == safe / f"grid-recovery-{key.public[:8]}.key"
    assert stat.S_IMODE(recovery.stat().st_mode) == 0o600
    assert recovery.read_bytes() == (tmp_path / "mesh-authority.key").read_bytes()
    assert not recovery.samefile(tmp_path / "mesh-authority.key")
    assert Key.from_file(recovery).public == load_authority(tmp_path).public == key.public


def test_founding_that_was_cut_short_goes_on_with_the_same_key(tmp_path):
    key, recovery = create_authority(tmp_path)
    recovery.unlink()
    again, copy = create_authority(tmp_path)

    assert (again.public, copy) == (key.public, recovery)
    assert create_authority(tmp_path)[0].public == key.public
    assert recovery.exists()


def test_a_recovery_file_of_another_mesh_is_not_touched(tmp_path):
    key, recovery = create_authority(tmp_path)
    recovery.unlink()
    other = Key.create(recovery)

    with pytest.raises(KeyUnusable, match="another mesh"):
        create_authority(tmp_path)

    assert Key.from_file(recovery).public == other.public != key.public


def test_who_founds_again_sets_the_old_key_aside(tmp_path):
    key, _ = create_authority(tmp_path)
    kept = set_authority_aside(tmp_path)

    assert Key.from_file(kept).public == key.public
    assert load_authority(tmp_path) is None
    assert set_authority_aside(tmp_path) is None
    assert create_authority(tmp_path)[0].public != key.public


def test_a_key_can_be_set_aside_twice(tmp_path):
    key, _ = create_authority(tmp_path)
    kept = set_authority_aside(tmp_path)
    key.write(tmp_path / "mesh-authority.key")

    assert set_authority_aside(tmp_path) == kept
    assert load_authority(tmp_path) is None
