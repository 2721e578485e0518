"""A directory becomes a manifest and chunks; what may not travel is refused by name."""

import os
import socket
import stat

import pytest

from distributed_grid.edges.artifacts import (
    CacheFull,
    CannotShip,
    Refused,
    TooMuch,
    packing,
    recall,
    walking,
)
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.edges.artifacts.packing import SMALL_BYTES_MAX, Packing, lay_out
from distributed_grid.edges.artifacts.recall import TABLES_MAX, Recall
from distributed_grid.errors import BadValue
from distributed_grid.model.artifact import ASKED, CHUNK_BYTES_MAX, UNASKED, Amount
from tests.unit.artifacts.lab import a_store, files_of, noise, picture, plant

ODD = {
    "two\nlines": "a",
    "e\u0301 ü 漢字 🦀": "b",
    "n" * 255: "c",
    " leading and trailing ": "d",
    "-rf": "e",
    "*": "f",
    "\\back": "g",
    "deep/" * 40 + "end": "h",
}


@pytest.fixture
def store(tmp_path):
    return a_store(tmp_path / "cache")


def there_and_back(store, root, target, **options):
    packed = files_of(store).pack(str(root), owner="job", amount=ASKED, **options)
    files_of(store).unpack(packed.id, str(target))
    return packed


def test_a_tree_comes_back_as_it_was(tmp_path, store):
    root = plant(
        tmp_path / "w",
        {
            "a.py": "print(1)\n",
            "empty": "",
            "none": None,
            "large": noise(3 * CHUNK_BYTES_MAX + 17),
            "exact": noise(2 * CHUNK_BYTES_MAX, 3),
            "src/here": ("../a.py",),
            "src/nowhere": ("../not there",),
            "src/folder": ("../none",),
            **ODD,
        },
    )
    (root / "a.py").chmod(0o755)
    (root / "empty").chmod(0o400)
    (root / "none").chmod(0o555)
    (root / "src").chmod(0o700)
    root.chmod(0o750)
    with open(os.fsencode(root) + b"/not \xff\xfe text", "wb") as file:  # noqa: PTH123
        file.write(b"bytes")
    packed = there_and_back(store, root, tmp_path / "x")

    assert picture(tmp_path / "x") == picture(root)
    assert packed.files == 5 + len(ODD)
    assert packed.refused == ()


def test_rights_travel_and_what_gives_away_does_not(tmp_path, store):
    root = plant(tmp_path / "w", {"tool": "x"})
    (root / "tool").chmod(0o4755)
    there_and_back(store, root, tmp_path / "x")

    assert stat.S_IMODE((tmp_path / "x/tool").stat().st_mode) == 0o755


def test_the_same_tree_has_the_same_id_anywhere_and_any_time(tmp_path, store):
    entries = {"b": "2", "a": "1", "d/c": "3", "l": ("a",)}
    first = plant(tmp_path / "one", entries)
    other = plant(tmp_path / "two", dict(reversed(entries.items())))
    ids = {
        files_of(a_store(tmp_path / f"s{n}")).pack(str(root), owner="j", amount=UNASKED).id
        for n, root in enumerate((first, other, first))
    }

    assert len(ids) == 1


def test_small_files_share_chunks(tmp_path, store):
    root = plant(tmp_path / "w", {f"d{n % 7}/{n}.txt": f"{n}" * 50 for n in range(1_000)})
    there_and_back(store, root, tmp_path / "x")

    assert store.status().chunks < 30
    assert picture(tmp_path / "x") == picture(root)


def test_one_more_file_changes_few_chunks(tmp_path, store):
    root = plant(tmp_path / "w", {f"{n:04}.txt": noise(2_000, n) for n in range(1_000)})
    files_of(store).pack(str(root), owner="a", amount=UNASKED)
    before = store.status()
    plant(root, {"0000a.txt": noise(2_000, 7_000)})
    files_of(store).pack(str(root), owner="b", amount=UNASKED)
    after = store.status()

    assert before.bytes_used > 2_000_000
    assert after.bytes_used - before.bytes_used < 1_000_000


def test_chunks_never_grow_beyond_their_limit():
    def one(n, size):
        return walking.Seen(-1, b"%d" % n, b"%d" % n, 0o644, size, 0, 0, n, 0)

    sizes = [SMALL_BYTES_MAX, 1, 0, SMALL_BYTES_MAX - 1, 5_000] * 50 + [SMALL_BYTES_MAX + 1]
    shares, large = lay_out([one(n, size) for n, size in enumerate(sizes)])

    assert all(sum(file.size for file in share) <= CHUNK_BYTES_MAX for share in shares)
    assert sum(map(len, shares)) == 250
    assert len(large) == 1


# What may not travel


def test_what_may_not_travel_is_refused_by_name(tmp_path, store):
    root = plant(tmp_path / "w", {"fine": ""})
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "door"))
        with pytest.raises(CannotShip) as caught:
            files_of(store).pack(str(root), owner="job", amount=UNASKED)
    refused = {one.path: one.why for one in caught.value.refused}

    assert refused.pop("pipe") == "a pipe"
    assert refused.pop("door") == "a socket"
    assert not refused
    assert "--ship" in str(caught.value)
    assert caught.value.exit_code == 2


def test_links_that_lead_outside_stay_at_home_and_are_named(tmp_path, store):
    tree = {"fine": "", "out": ("/etc/passwd",), "up": ("../../x",), "a/by": ("../up/y",)}
    packed = files_of(store).pack(str(plant(tmp_path / "w", tree)), owner="job", amount=UNASKED)

    assert (packed.files, packed.refused) == (1, ())
    assert not store.manifest(packed.id).links
    assert set(packed.links_outside) == {"a/by -> ../up/y", "out -> /etc/passwd", "up -> ../../x"}
    plant(tmp_path / "w", {f"more{number}": ("/etc",) for number in range(99)})
    again = files_of(store).pack(str(tmp_path / "w"), owner="job", amount=UNASKED)
    assert (len(again.links_outside), again.links_outside[-1]) == (4, "99 more")


def test_what_is_ignored_is_not_refused(tmp_path, store):
    root = plant(tmp_path / "w", {"fine": "", "out": ("/etc",), ".gridignore": "out\n"})

    assert files_of(store).pack(str(root), owner="job", amount=UNASKED).files == 2


def test_many_refusals_make_one_line(tmp_path, store):
    root = plant(tmp_path / "w", {})
    for number in range(9):
        os.mkfifo(root / f"pipe{number}")

    with pytest.raises(CannotShip, match="and 4 more"):
        files_of(store).pack(str(root), owner="job", amount=UNASKED)


@pytest.mark.parametrize("where", ["/", "home", "above", "link"])
def test_some_directories_never_travel(tmp_path, store, where):
    home = plant(tmp_path / "above/me", {"a": ""})
    (tmp_path / "link").symlink_to(home)
    roots = {"/": "/", "home": str(home), "above": str(home.parent), "link": str(tmp_path / "link")}
    with pytest.raises(CannotShip, match=r"root of all files|your home directory"):
        files_of(store, str(home)).pack(roots[where], owner="job", amount=ASKED)

    assert (
        files_of(store, str(home)).pack(str(home), owner="j", amount=ASKED, paths=("a",)).files == 1
    )
    with pytest.raises(CannotShip, match=r"Name what the job needs of it: --ship PATH"):
        files_of(store, str(home)).pack(str(home), owner="j", amount=ASKED, paths=(".",))


def test_a_directory_that_is_too_large_says_how_large_it_is(tmp_path, store):
    root = plant(tmp_path / "w", {"a": "x" * 2_000, "b": "y" * 100})

    with pytest.raises(
        TooMuch,
        match="2 KiB in 2 files and folders would travel, at most 1000 B in 10 do; the most is in",
    ):
        files_of(store).pack(str(root), owner="job", amount=Amount(bytes_max=1_000, files_max=10))
    with pytest.raises(TooMuch, match=r"in 2 files .* in 1 do"):
        files_of(store).pack(str(root), owner="job", amount=Amount(bytes_max=10_000, files_max=1))


def test_without_being_asked_a_gigabyte_and_twenty_thousand_files_travel():
    assert (UNASKED.bytes_max, UNASKED.files_max) == (1 << 30, 20_000)


def test_what_is_not_there_is_told(tmp_path, store):
    with pytest.raises(CannotShip, match="cannot be read"):
        files_of(store).pack(str(tmp_path / "gone"), owner="job", amount=UNASKED)


def test_a_folder_nobody_may_read_is_named(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {"a/b": "", "c": ""})
    real = os.scandir

    def scandir(path):
        if path.endswith(b"/a"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(walking.os, "scandir", scandir)
    with pytest.raises(CannotShip, match=r"a \(cannot be read: Permission denied\)"):
        files_of(store).pack(str(root), owner="job", amount=UNASKED)


# What is named


def test_only_what_is_named_travels(tmp_path, store):
    root = plant(tmp_path / "w", {"a/b": "1", "a/c": "2", "d": "3", "e/f/g": "4", "e/h": "5"})
    there_and_back(store, root, tmp_path / "x", paths=("a", str(root / "e/f")))

    assert set(picture(tmp_path / "x")) == {b".", b"a", b"a/b", b"a/c", b"e", b"e/f", b"e/f/g"}


@pytest.mark.parametrize("path", ["..", "../x", "/etc", "a/../../b"])
def test_a_path_outside_is_refused(tmp_path, store, path):
    plant(tmp_path / "w", {"a": ""})

    with pytest.raises(BadValue, match="a path in"):
        files_of(store).pack(str(tmp_path / "w"), owner="job", amount=ASKED, paths=(path,))


@pytest.mark.parametrize("path", ["b", "a/b", "./b/"])
def test_a_path_that_leads_nowhere_is_refused(tmp_path, store, path):
    plant(tmp_path / "w", {"a": ""})

    with pytest.raises(BadValue, match=r"something that is in .* Check the name"):
        files_of(store).pack(str(tmp_path / "w"), owner="job", amount=ASKED, paths=("a", path))


@pytest.mark.parametrize("path", ["data", "data/raw", "one.csv", "all/deep", "link"])
def test_what_is_named_travels_whatever_ignores_it(tmp_path, store, path):
    tree = {
        ".gridignore": "data\n*.csv\nlink\nall/**",
        "data/raw/a": "x",
        "one.csv": "x",
        "all/deep/b": "x",
        "link": ("a",),
        "a": "x",
    }
    root = plant(tmp_path / "w", tree)
    packed = files_of(store).pack(str(root), owner="job", amount=ASKED, paths=("a", path))
    manifest = store.manifest(packed.id)

    assert len(manifest.files) + len(manifest.links) == 2


def test_what_is_named_and_left_out_in_part_or_empty_travels_as_it_is(tmp_path, store):
    tree = {".gridignore": "*.log", "data/a": "x", "data/a.log": "x", "none": None,
            "links/b": ("../data/a",)}  # fmt: skip
    root = plant(tmp_path / "w", tree)
    packed = files_of(store).pack(
        str(root), owner="job", amount=ASKED, paths=("data", "none", "links", "links/b")
    )

    assert packed.files == 1
    everything = files_of(store).pack(str(root), owner="all", amount=ASKED, paths=(".",))
    assert everything.files == 2


def test_our_own_directory_does_not_travel(tmp_path):
    root = plant(tmp_path / "w", {"a": ""})
    store = a_store(root / "grid/cache")
    own = (str(root / "grid"), str(root / "not there"))
    files = DiskFiles(store, user_home="/nobody", own=own)

    assert files.pack(str(root), owner="j", amount=UNASKED).files == 1


def test_odd_things_are_refused_by_name(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {"a": "", "l": ("a",), "m": ("a",), "n": ("x" * 50,)})
    monkeypatch.setattr(walking, "LINKS_MAX", 1)
    with pytest.raises(CannotShip, match="more than 1 symbolic links"):
        files_of(store).pack(str(root), owner="j", amount=UNASKED)
    monkeypatch.setattr(walking, "LINKS_MAX", 9)
    monkeypatch.setattr(walking, "PATH_BYTES_MAX", 40)
    with pytest.raises(CannotShip, match="too long a target"):
        files_of(store).pack(str(root), owner="j", amount=UNASKED)
    plant(root, {"y" * 50: ""})
    with pytest.raises(CannotShip, match="path has more than 40 bytes"):
        files_of(store).pack(str(root), owner="j", amount=UNASKED)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), PermissionError(13, "not yours")])
def test_what_vanishes_while_it_is_looked_at_was_not_there_and_other_trouble_is_named(
    tmp_path, store, monkeypatch, error
):
    root = plant(tmp_path / "w", {"a": "1", "l": ("a",)})

    def readlink(_):
        raise error

    monkeypatch.setattr(walking.os, "readlink", readlink)
    if isinstance(error, FileNotFoundError):
        assert files_of(store).pack(str(root), owner="j", amount=UNASKED).entries == 1
    else:
        with pytest.raises(CannotShip, match=r"l \(cannot be read: not yours"):
            files_of(store).pack(str(root), owner="j", amount=UNASKED)


def test_a_manifest_beyond_all_bounds_is_too_much(tmp_path, store, monkeypatch):
    monkeypatch.setattr(packing, "MANIFEST_BYTES_MAX", 10)

    with pytest.raises(TooMuch):
        files_of(store).pack(str(plant(tmp_path / "w", {"a": ""})), owner="j", amount=UNASKED)


def test_a_table_that_grows_too_large_is_not_kept(tmp_path, store, monkeypatch):
    monkeypatch.setattr(recall, "TABLE_BYTES_MAX", 10)
    later(monkeypatch)
    root = plant(tmp_path / "w", {"a": "1"})
    files_of(store).pack(str(root), owner="a", amount=UNASKED)

    assert files_of(store).pack(str(root), owner="b", amount=UNASKED).read_bytes == 1


# The second time


def later(monkeypatch):
    """The clock of the look is a minute on: what there is has settled."""
    real = packing.time.time_ns
    monkeypatch.setattr(packing.time, "time_ns", lambda: real() + 60 * 10**9)


def test_the_second_time_nothing_is_read_again(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {"a": "1", "b": "2", "large": noise(600_000)})
    later(monkeypatch)
    first = files_of(store).pack(str(root), owner="a", amount=UNASKED)
    second = files_of(store).pack(str(root), owner="b", amount=UNASKED)
    plant(root, {"a": "3"})
    third = files_of(store).pack(str(root), owner="c", amount=UNASKED)

    assert (first.read_bytes, second.read_bytes, third.read_bytes) == (600_002, 0, 2)
    assert first.id == second.id != third.id


def test_a_file_that_is_too_young_is_read_again(tmp_path, store):
    root = plant(tmp_path / "w", {"a": "1"})
    files_of(store).pack(str(root), owner="a", amount=UNASKED)

    assert files_of(store).pack(str(root), owner="b", amount=UNASKED).read_bytes == 1


def test_what_the_store_has_lost_is_read_again(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {"a": "1"})
    later(monkeypatch)
    packed = files_of(store).pack(str(root), owner="a", amount=UNASKED)
    store.unpin(packed.id, "a")
    store.clear()

    assert files_of(store).pack(str(root), owner="b", amount=UNASKED).read_bytes == 1


def test_tables_of_directories_are_bounded_and_damaged_ones_harmless(tmp_path):
    folder = tmp_path / "recall"
    file = walking.Seen(-1, b"a", b"a", 0o644, 1, 1, 1, 1, 1)
    for number in range(TABLES_MAX + 5):
        table = Recall(str(folder), b"/%d" % number)
        table.remember(b"k", b"d", [file], looked_ns=10**18)
        table.save()
    kept = Recall(str(folder), b"/%d" % (TABLES_MAX + 4))

    assert len(list(folder.iterdir())) == TABLES_MAX
    assert kept.digests(b"k") == b"d"
    for path in folder.iterdir():
        path.write_bytes(b"\xc1")
    assert Recall(str(folder), b"/%d" % (TABLES_MAX + 4)).digests(b"k") is None


# While others write


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {"a": "before"})
    real = Packing._read_one

    def read(self, root_, file, draft):
        made = real(self, root_, file, draft)
        if not (root / "b").exists():
            plant(root, {"a": "after", "b": ""})
            raise packing.Changed({file.path: packing.RESTLESS})
        return made

    monkeypatch.setattr(Packing, "_read_one", read)
    there_and_back(store, root, tmp_path / "x")

    assert (tmp_path / "x/a").read_text() == "after"


@pytest.mark.parametrize("how", ["grows", "shrinks", "same-size", "gone", "link"])
def test_a_change_is_noticed(tmp_path, store, how, monkeypatch):
    root = plant(tmp_path / "w", {"a": "before"})
    found = walking.Walk(bytes(root)).look()
    os.utime(root / "a", ns=(1, 1))
    match how:
        case "grows":
            (root / "a").write_text("before and after")
        case "shrinks":
            (root / "a").write_text("")
        case "same-size":
            (root / "a").write_text("beyond")
        case "gone":
            (root / "a").unlink()
        case "link":
            (root / "a").unlink()
            (root / "a").symlink_to("/etc/passwd")

    with pytest.raises(packing.Changed):
        Packing(store)._read(bytes(root), found.files, "draft")
    with pytest.raises(packing.Changed):
        Packing(store)._read(bytes(root), found.files * 2, "draft")


def test_a_file_that_never_rests_is_named(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {"fine": "1", "busy": noise(5_000_000)})
    put = store.put

    def put_while_somebody_writes(*chunk, **options):
        with (root / "busy").open("ab") as file:
            file.write(b"more")
        put(*chunk, **options)

    monkeypatch.setattr(store, "put", put_while_somebody_writes)
    with pytest.raises(CannotShip, match=r"busy \(it changes while it is read\)"):
        files_of(store).pack(str(root), owner="job", amount=ASKED)
    outputs = files_of(store).collect(str(root), owner="job", amount=ASKED, globs=("*",))

    assert [one.path for one in outputs.refused] == ["busy"]
    assert outputs.files == 1


def test_a_full_store_is_told_and_leaves_nothing_pinned(tmp_path):
    store = a_store(tmp_path / "cache", bytes_max=700_000)
    first = plant(tmp_path / "first", {"a": noise(400_000)})
    needed = files_of(store).pack(str(first), owner="job", amount=UNASKED)
    root = plant(tmp_path / "w", {"a": noise(400_000, seed=8)})

    with pytest.raises(CacheFull, match="are needed by jobs"):
        files_of(store).pack(str(root), owner="job", amount=UNASKED)
    store.unpin(needed.id, "job")
    assert store.status().bytes_pinned == 0


def test_of_a_very_long_path_the_ends_are_told():
    path = "first/" + "d/" * 2_000 + "last"
    told = str(CannotShip("/x", refused=[Refused(path, "why")]))

    assert "first/d/" in told
    assert "/last (why)" in told
    assert len(told) < 500


@pytest.mark.parametrize(
    ("bytes_max", "files_max", "is_within"), [(3, 3, True), (2, 3, False), (3, 2, False)]
)
def test_whether_a_directory_is_small_is_seen_without_reading_it(
    tmp_path, bytes_max, files_max, is_within
):
    tree = plant(tmp_path / "tree", {"d/a": "1", "b": "22", "left/out": "333"})
    plant(tree, {".gridignore": "left\n.gridignore\n"})
    amount = Amount(bytes_max=bytes_max, files_max=files_max)

    assert files_of(a_store(tmp_path / "store")).is_within(str(tree), amount) is is_within


def test_what_is_not_there_is_not_small(tmp_path):
    files = files_of(a_store(tmp_path / "store"))

    assert not files.is_within(str(tmp_path / "nothing"), ASKED)


def test_what_is_larger_than_the_cache_is_refused_before_anything_is_written(tmp_path):
    tree = plant(tmp_path / "tree", {"large": noise(3_000)})
    store = a_store(tmp_path / "store", bytes_max=2_000)
    with pytest.raises(TooMuch) as caught:
        files_of(store).pack(str(tree), owner="me", amount=ASKED)

    assert caught.value.amount.bytes_max == 2_000
    assert store.status().bytes_used == 0
