"""Is a key whole, its owner's alone, and never shown?"""

import copy
import os
import pickle
import stat

import pytest

from distributed_grid.edges.keys import Key, KeyUnusable, verify

SECRET = bytes(range(32))


def test_what_one_key_signs_only_its_public_half_confirms():
    key, other = Key(SECRET), Key(bytes(32))
    signature = key.sign(b"word")

    assert len(signature) == 64
    assert signature == key.sign(b"word")
    assert verify(key.public, b"word", signature)
    assert not verify(key.public, b"words", signature)
    assert not verify(other.public, b"word", signature)


@pytest.mark.parametrize(
    ("public", "signature"),
    [
        ("", b""),
        ("x" * 64, bytes(64)),
        ("ab", bytes(64)),
        (Key(SECRET).public, b""),
        (Key(SECRET).public, bytes(64)),
        (Key(SECRET).public.upper(), Key(SECRET).sign(b"word")),
        (" " + Key(SECRET).public, Key(SECRET).sign(b"word")),
        ("é" * 64, bytes(64)),
        (None, None),
    ],
)
def test_junk_is_just_not_signed(public, signature):
    assert verify(public, b"word", signature) is False


def test_a_key_lies_in_a_file_of_32_bytes_that_only_its_owner_can_read(tmp_path):
    old = os.umask(0)
    try:
        made = Key.create(tmp_path / "k")
    finally:
        os.umask(old)
    found = (tmp_path / "k").stat()

    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_size == 32
    assert (tmp_path / "k").read_bytes() == made.secret()
    assert Key.from_file(tmp_path / "k").public == made.public
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_two_keys_are_never_alike(tmp_path):
    assert Key.create(tmp_path / "a").public != Key.create(tmp_path / "b").public


def test_a_key_is_never_overwritten(tmp_path):
    made = Key.create(tmp_path / "k")

    with pytest.raises(KeyUnusable, match="there already"):
        Key.create(tmp_path / "k")

    assert Key.from_file(tmp_path / "k").public == made.public
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_could_have_read_is_not_used(tmp_path, mode):
    Key.create(tmp_path / "k")
    (tmp_path / "k").chmod(mode)

    with pytest.raises(KeyUnusable, match="others can read") as caught:
        Key.from_file(tmp_path / "k")

    assert "chmod 600" in caught.value.remedy


@pytest.mark.parametrize("size", [0, 31, 33, 4_096])
def test_a_file_of_another_length_is_no_key(tmp_path, size):
    (tmp_path / "k").write_bytes(bytes(size))
    (tmp_path / "k").chmod(0o600)

    with pytest.raises(KeyUnusable, match="is no key"):
        Key.from_file(tmp_path / "k")


def test_links_pipes_and_directories_are_no_keys(tmp_path):
    Key.create(tmp_path / "k")
    (tmp_path / "link").symlink_to(tmp_path / "k")
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "directory").mkdir()

    for name, why in (("link", "a link"), ("pipe", "no file"), ("directory", "no file")):
        with pytest.raises(KeyUnusable, match=why):
            Key.from_file(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away: sudo make unit")
def test_a_key_of_another_user_is_not_used(tmp_path):
    Key.create(tmp_path / "k")
    os.chown(tmp_path / "k", 12_345, 12_345)

    with pytest.raises(KeyUnusable, match="another user"):
        Key.from_file(tmp_path / "k")


def test_what_cannot_be_read_or_written_says_so(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(KeyUnusable, match="cannot be read"):
        Key.from_file(tmp_path / "file" / "k")
    with pytest.raises(KeyUnusable, match="cannot be written"):
        Key.create(tmp_path / "missing" / "k")
    with pytest.raises(FileNotFoundError):
        Key.from_file(tmp_path / "k")


def test_a_key_is_never_shown_and_does_not_travel():
    key = Key(SECRET)

    assert SECRET.hex() not in repr(key) + str(key)
    assert repr(key) == f"<Key {key.public[:8]}>"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.copy(key)
