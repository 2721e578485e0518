"""A manifest says what a directory holds, and can be believed whoever sent it."""

import msgspec
import pytest

from distributed_grid.model import artifact
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    PATH_BYTES_MAX,
    ROOT,
    BadManifest,
    File,
    Folder,
    Manifest,
    Symlink,
    links_outside,
    read,
    stretches,
)

ONE = artifact.digest(b"x" * 10)


def a_manifest(**fields) -> Manifest:
    usual = dict(
        folders=(Folder(ROOT, b"src", 0o755), Folder(0, b"deep", 0o700)),
        files=(File(1, b"a.py", 0o644, 4), File(ROOT, b"empty", 0o600, 0), File(0, b"b", 0o755, 6)),
        links=(Symlink(0, b"here", b"deep/a.py"),),
        digests=ONE,
        sizes=(10,),
    )
    return Manifest(**{**usual, **fields})


def test_a_manifest_comes_back_from_its_bytes():
    made = a_manifest()
    body = artifact.encode(made)

    assert read(body) == made
    assert (made.content_bytes, made.entries, made.chunks) == (10, 6, [ONE])
    assert made.folder_paths() == [b"src", b"src/deep"]
    assert len(artifact.id_of(body)) == 64


def test_the_id_of_a_manifest_is_never_that_of_a_chunk_with_the_same_bytes():
    body = artifact.encode(a_manifest())

    assert artifact.id_of(body) != artifact.digest(body).hex()


def test_any_change_gives_another_id():
    ids = {
        artifact.id_of(artifact.encode(made))
        for made in (
            a_manifest(),
            a_manifest(mode=0o700),
            a_manifest(links=()),
            a_manifest(digests=artifact.digest(b"y")),
        )
    }

    assert len(ids) == 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": 2}, "version 2"),
        ({"folders": (Folder(0, b"own", 0o755),)}, "before its parent"),
        ({"folders": (Folder(-2, b"own", 0o755),)}, "before its parent"),
        ({"files": (File(2, b"a", 0o644, 10),)}, "folder that is not there"),
        ({"files": (File(-2, b"a", 0o644, 10),)}, "folder that is not there"),
        ({"files": (File(ROOT, b"", 0o644, 10),)}, "no name"),
        ({"files": (File(ROOT, b"a/b", 0o644, 10),)}, "no name"),
        ({"files": (File(ROOT, b"a\0b", 0o644, 10),)}, "no name"),
        ({"files": (File(ROOT, b"n" * 256, 0o644, 10),)}, "no name"),
        ({"files": (File(ROOT, b"..", 0o644, 10),)}, "leads elsewhere"),
        ({"folders": (Folder(ROOT, b".", 0o755),) * 2}, "leads elsewhere"),
        ({"files": (File(ROOT, b"src", 0o644, 10),)}, "twice"),
        ({"links": (Symlink(1, b"a.py", b"b"),)}, "twice"),
        ({"files": (File(ROOT, b"a", 0o4755, 10),)}, "mode"),
        ({"mode": -1}, "mode"),
        ({"digests": ONE + b"x"}, "chunks than sizes"),
        ({"sizes": (10, 0), "digests": ONE * 2}, "empty"),
        ({"sizes": (CHUNK_BYTES_MAX + 1,)}, "more than"),
        ({"sizes": (11,)}, "as large as its chunks"),
        (
            {"files": (File(ROOT, b"a", 0o644, 11), File(ROOT, b"b", 0o644, -1))},
            "less than no bytes",
        ),
        ({"links": (Symlink(0, b"l", b""),)}, "leads nowhere"),
        ({"links": (Symlink(0, b"l", b"a\0"),)}, "leads nowhere"),
        ({"links": (Symlink(0, b"l", b"../../etc"),)}, "leads outside"),
    ],
)
def test_a_manifest_that_lies_is_not_believed(fields, words):
    with pytest.raises(BadManifest, match=words):
        read(artifact.encode(a_manifest(**fields)))


def test_a_path_that_is_too_long_is_not_believed():
    deep = [Folder(at - 1, b"d" * 250, 0o755) for at in range(PATH_BYTES_MAX // 250 + 1)]

    with pytest.raises(BadManifest, match="path is longer"):
        read(artifact.encode(Manifest(folders=tuple(deep))))


@pytest.mark.parametrize("limit", ["FILES_MAX", "LINKS_MAX", "CHUNKS_MAX"])
def test_more_than_may_travel_is_not_believed(monkeypatch, limit):
    monkeypatch.setattr(artifact, limit, 0)

    with pytest.raises(BadManifest, match="at most 0"):
        read(artifact.encode(a_manifest()))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b"\x90" * 2_000])
def test_bytes_that_are_no_manifest_are_told(body):
    with pytest.raises(BadManifest):
        read(body)


def test_a_manifest_that_is_too_long_is_not_even_looked_at():
    with pytest.raises(BadManifest, match="bytes, at most"):
        read(b"x" * (MANIFEST_BYTES_MAX + 1))


def test_one_directory_has_one_form():
    longer = msgspec.msgpack.encode([*msgspec.to_builtins(a_manifest(), builtin_types=(bytes,)), 7])

    with pytest.raises(BadManifest, match="canonical"):
        read(longer)


FOLDERS = (Folder(ROOT, b"x", 0o755), Folder(0, b"y", 0o755))


@pytest.mark.parametrize(
    ("links", "outside"),
    [
        ([(ROOT, b"a", b"x/y")], []),
        ([(ROOT, b"a", b".")], []),
        ([(1, b"a", b"../../x")], []),
        ([(1, b"a", b"../../..")], [b"a"]),
        ([(ROOT, b"a", b"/etc/passwd")], [b"a"]),
        ([(ROOT, b"a", b"..")], [b"a"]),
        ([(ROOT, b"a", b"nowhere/../b")], []),
        ([(ROOT, b"a", b"nowhere/../../b")], [b"a"]),
        ([(ROOT, b"a", b"no/where/../../../b")], [b"a"]),
        # Each stays inside by its words; the second leaves by way of the first.
        ([(1, b"up", b"../.."), (ROOT, b"out", b"x/y/up/..")], [b"out"]),
        ([(1, b"abs", b"/"), (ROOT, b"by", b"x/y/abs/etc")], [b"abs", b"by"]),
        # In circles.
        ([(ROOT, b"a", b"b"), (ROOT, b"b", b"a")], []),
        # So far that nobody follows.
        ([(ROOT, b"a", b"x/../" * 590)], [b"a"]),
    ],
)
def test_a_link_that_leads_outside_is_found_also_by_way_of_others(links, outside):
    made = Manifest(folders=FOLDERS, links=tuple(Symlink(*link) for link in links))

    assert [link.name for link in links_outside(made)] == outside


def test_the_chunks_are_cut_along_the_row_of_files():
    made = a_manifest(
        files=(
            File(ROOT, b"none", 0o644, 0),
            File(ROOT, b"a", 0o644, 3),
            File(ROOT, b"b", 0o644, 9),
            File(ROOT, b"empty", 0o644, 0),
            File(ROOT, b"c", 0o644, 4),
        ),
        digests=ONE * 4,
        sizes=(5, 5, 2, 4),
    )

    assert list(stretches(made)) == [
        (0, [(1, 0, 3), (2, 3, 5)]),
        (1, [(2, 0, 5)]),
        (2, [(2, 0, 2)]),
        (3, [(4, 0, 4)]),
    ]


def test_a_name_that_is_no_text_can_be_shown():
    assert artifact.shown(b"caf\xe9 \xf0\x9f\xa6\x80") == "caf\\xe9 🦀"


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "g" * 64, "A" * 64, "0" * 63 + " "])
def test_what_is_no_id_is_known(text):
    assert artifact.is_id("0a" * 32)
    assert not artifact.is_id(text)
