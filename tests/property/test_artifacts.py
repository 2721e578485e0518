"""Any tree comes back as it was; any bytes are a manifest that harms nobody, or none."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributed_grid.edges.artifacts import CannotUnpack
from distributed_grid.edges.artifacts.staying import GIT_IGNORE, GRID_IGNORE, MARKS, Level
from distributed_grid.model import artifact
from distributed_grid.model.artifact import (
    ASKED,
    CHUNK_BYTES_MAX,
    ROOT,
    BadManifest,
    File,
    Folder,
    Manifest,
    Symlink,
    flaw_of,
    stretches,
)
from distributed_grid.wire import artifacts as wire
from tests.unit.artifacts.lab import a_store, files_of, noise, picture


def stays(name: bytes) -> bool:
    """Whether a name is one that keeps itself, or what is beside it, at home."""
    return name in (GIT_IGNORE, GRID_IGNORE, *MARKS) or any(
        Level().why(name, name, is_folder=is_folder) for is_folder in (True, False)
    )


NAMES = st.binary(min_size=1, max_size=255).filter(
    lambda name: (
        b"/" not in name and b"\0" not in name and name not in (b".", b"..") and not stays(name)
    )
)
SIZES = st.sampled_from([0, 1, 5, 4_096, 131_072, 131_073, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1])
LEAVES = st.one_of(
    st.tuples(st.just("file"), SIZES, st.integers(0, 5), st.sampled_from([0o644, 0o755, 0o400])),
    st.tuples(st.just("folder"), st.sampled_from([0o755, 0o700, 0o500])),
    st.tuples(st.just("link"), NAMES),
)
TREES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=4),
    lambda below: st.dictionaries(NAMES, st.one_of(LEAVES, below), max_size=4),
    max_leaves=8,
)


def grow(folder: bytes, tree) -> None:
    for name, what in tree.items():
        path = folder + b"/" + name
        if isinstance(what, dict):
            os.mkdir(path)  # noqa: PTH102
            grow(path, what)
        elif what[0] == "folder":
            os.mkdir(path, what[1])  # noqa: PTH102
        elif what[0] == "link":
            os.symlink(what[1], path)  # noqa: PTH211
        else:
            with open(path, "wb") as file:  # noqa: PTH123
                file.write(noise(what[1], what[2]))
            os.chmod(path, what[3])  # noqa: PTH101


@given(TREES)
@settings(max_examples=60)
def test_any_tree_comes_back_as_it_was(tree):
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        (base / "w").mkdir()
        grow(bytes(base / "w"), tree)
        files = files_of(a_store(base / "cache"))
        packed = files.pack(str(base / "w"), owner="job", amount=ASKED)
        files.unpack(packed.id, str(base / "x"))

        assert picture(base / "x") == picture(base / "w")


PIECES = st.binary(max_size=6) | st.sampled_from([b"..", b".", b"a", b"b", b"a/b", b"/", b"../.."])
INDICES = st.integers(-2, 4)
MANIFESTS = st.builds(
    Manifest,
    mode=st.sampled_from([0o755, 0o7777, -1]),
    folders=st.lists(st.builds(Folder, INDICES, PIECES, st.just(0o755)), max_size=4).map(tuple),
    files=st.lists(
        st.builds(File, INDICES, PIECES, st.sampled_from([0o644, 0o4755]), st.integers(-1, 3)),
        max_size=4,
    ).map(tuple),
    links=st.lists(
        st.builds(Symlink, INDICES, PIECES, st.lists(PIECES, max_size=4).map(b"/".join)), max_size=4
    ).map(tuple),
    digests=st.sampled_from([b"", artifact.digest(b"xyz")]),
    sizes=st.lists(st.integers(-1, 4), max_size=2).map(tuple),
)


@given(MANIFESTS)
@settings(max_examples=300)
def test_no_manifest_writes_outside_of_its_directory(manifest):
    if flaw_of(manifest):
        with pytest.raises(BadManifest):
            artifact.read(artifact.encode(manifest))
        return
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        store = a_store(base / "cache")
        store.put(artifact.digest(b"xyz"), b"xyz")
        name = store.put_manifest(artifact.encode(manifest))
        (base / "in").mkdir()
        before = picture(base)
        with contextlib.suppress(CannotUnpack):
            files_of(store).unpack(name, str(base / "in/x"))
            for path in (base / "in/x").rglob("*"):
                assert (base / "in/x").resolve() in [path.resolve(), *path.resolve().parents]
        after = {path: what for path, what in picture(base).items() if path[:4] != b"in/x"}

        assert after == before


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_told_to_be_none(body):
    with contextlib.suppress(BadManifest):
        assert flaw_of(artifact.read(body)) == ""
    with contextlib.suppress(*wire.JUNK):
        wire.decode(body)


@given(st.lists(st.integers(0, 50), max_size=20), st.data())
def test_every_byte_of_every_file_is_in_exactly_one_stretch(sizes, data):
    left, cuts = sum(sizes), []
    while left:
        cuts.append(data.draw(st.integers(1, min(left, 30))))
        left -= cuts[-1]
    manifest = Manifest(
        files=tuple(File(ROOT, b"%d" % n, 0o644, size) for n, size in enumerate(sizes)),
        sizes=tuple(cuts),
    )
    found = [0] * len(sizes)
    for chunk, parts in stretches(manifest):
        at = 0
        for number, begin, end in parts:
            assert begin == at < end <= cuts[chunk]
            found[number] += end - begin
            at = end
        assert at == cuts[chunk]

    assert found == sizes


@given(st.sets(st.integers(0, 300)), st.integers(0, 301))
def test_bits_come_back(indices, count):
    some = sorted(index for index in indices if index < count)

    assert wire.indices_of(wire.bits_of(some, count), count) == some
