"""What travels from a work directory, and what stays at home unless somebody names it."""

import os
import subprocess
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts import CannotShip, TooMuch
from distributed_grid.errors import BadValue
from distributed_grid.model.artifact import ASKED, UNASKED, Amount
from tests.unit.artifacts.lab import a_store, files_of, plant

PROJECT = {
    "train.py": "x",
    ".env": "secret",
    ".env.local": "secret",
    ".env.example": "",
    "deploy/id_rsa": "secret",
    "deploy/site.pem": "secret",
    "credentials.json": "secret",
    "credentials.py": "x",
    ".git/config": "",
    "env/pyvenv.cfg": "",
    "env/bin/python": ("/usr/bin/python3",),
    "node_modules/a/b.js": "",
    "src/__pycache__/a.pyc": "",
    "src/a.py": "x",
    "data/raw.csv": "1",
    ".gitignore": "data/\n",
}
WANTED = {"train.py", ".env.example", "credentials.py", "src/a.py", ".gitignore"}


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """What travels of a directory, by path; `what.why` is what stays, by reason."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    files = files_of(a_store(tmp_path / "cache"), home=str(tmp_path / "home"))

    def what(root: Path, *paths: str, are_sent: bool = False, amount: Amount = ASKED) -> set[str]:
        found = files.listed(str(root), amount=amount, paths=paths, are_ignored_sent=are_sent)
        what.left_out = {one.why: one for one in found.left_out}
        assert found.size_bytes == sum(size for _, size in found.files)
        return {path for path, _ in found.files}

    what.files = files
    return what


def test_an_ordinary_project_travels_without_its_secrets_and_its_litter(tmp_path, listed):
    root = plant(tmp_path / "w", PROJECT)

    assert listed(root) == WANTED
    assert set(listed.left_out[".gitignore"].paths) == {"data/"}
    assert set(listed.left_out["a virtual environment"].paths) == {"env/"}
    assert {"node_modules/", ".git/"} <= set(listed.left_out["left out by default"].paths)
    assert listed.left_out["may hold secrets, name it to send it"].count == 5
    packed = listed.files.pack(str(root), owner="j", amount=UNASKED)
    assert packed.files == len(WANTED)


SECRETS = [
    ".ENV", ".Env.Local", ".env~", "prod.env", "ID_RSA", "id_rsa.bak", "id_rsa_work", "id_ecdsa_sk",
    "deep/id_ed25519.old", "server.PEM", "server.Key", "server.key.bak", "site.pem.old", "a.key~",
    "Credentials.json", ".Netrc", "wallet.p8", ".vault-token", "terraform.tfstate", ".SSH/config",
    "terraform.tfstate.backup", ".docker/config.json", "deep/.Docker/config.json", ".AWS/config",
]  # fmt: skip
PLAIN = [
    ".env.example", ".env.sample", ".Env.Template", "id_rsa.pub", "id_ed25519_work.PUB", "keys.py",
    "monkey.old", "my.environment", ".docker/Dockerfile", "config.json",
]  # fmt: skip


def test_secrets_are_known_in_any_case_and_as_copies_of_themselves(tmp_path, listed):
    root = plant(tmp_path / "w", dict.fromkeys([*SECRETS, *PLAIN, ".GIT/config", ".DS_Store"], "x"))

    assert listed(root) == set(PLAIN)
    assert listed(root, are_sent=True) == {*PLAIN, ".GIT/config", ".DS_Store"}
    assert listed.left_out["may hold secrets, name it to send it"].count == len(SECRETS)


def test_a_gridignore_brings_back_what_it_names_and_a_gitignore_does_not(tmp_path, listed):
    plant(tmp_path / "a", {**PROJECT, ".gridignore": "!.env\n!node_modules\n!data\n"})
    plant(tmp_path / "b", {**PROJECT, ".gitignore": "!.env\n!node_modules\n"})

    assert {".env", "node_modules/a/b.js", "data/raw.csv"} <= listed(tmp_path / "a")
    assert not {".env", "node_modules/a/b.js"} & listed(tmp_path / "b")


@pytest.mark.parametrize("are_sent", [False, True])
def test_the_directory_of_an_agent_stays_with_its_sockets_and_keys(tmp_path, listed, are_sent):
    root = plant(tmp_path / "w", {"a": "", "desk/keeper.lock": "", "desk/grid.db": ""})
    os.mkfifo(root / "desk/agent.sock")

    assert listed(root, are_sent=are_sent) == {"a"}
    assert listed.left_out["a directory of Grid"].paths == ("desk/",)


def test_what_is_ignored_travels_on_demand_but_no_secret(tmp_path, listed):
    root = plant(tmp_path / "w", {**PROJECT, ".gridignore": "src\n.env"})
    found = listed(root, are_sent=True)

    assert {"data/raw.csv", "node_modules/a/b.js", "env/pyvenv.cfg", "src/a.py"} <= found
    assert not {".env", "deploy/id_rsa"} & found
    assert ".env" in listed(root, ".", ".env", are_sent=True)


def test_what_is_named_travels_and_what_is_below_it_as_it_would(tmp_path, listed):
    root = plant(tmp_path / "w", {**PROJECT, "data/.env": "s", "data/a.log": "", "log": ""})
    (root / ".gitignore").write_text("data/\n*.log\nout/*\n")
    plant(root, {"out/a": "", "out/b/c": "", "src/x.log": ""})

    assert listed(root, "data") == {"data/raw.csv", "data/a.log"}
    assert listed(root, "src") == {"src/a.py"}
    assert listed(root, "out") == {"out/a", "out/b/c"}
    assert listed(root, "out/b/c", "deploy/id_rsa") == {"out/b/c", "deploy/id_rsa"}
    with pytest.raises(BadValue, match="as a secret"):
        listed(plant(tmp_path / "v", {"keys/id_rsa": "s"}), "keys")


@pytest.mark.parametrize(
    ("grid", "git"),
    [
        ("*.token", "data/"),
        ("data/\n*.token", ""),
        ("*.token\ndata/*", ""),
        ("*.token\n/data/**", ""),
        ("*.token\n*", ""),
        ("/data/*.token", "data/*"),
        ("*.token", "*.csv"),
    ],
)
@pytest.mark.parametrize("folder", ["", "top/"])
def test_of_a_folder_that_is_named_a_gridignore_still_keeps_what_it_names(
    tmp_path, listed, grid, git, folder
):
    if folder:
        grid, git = (text.replace("data/*", "top/data/*") for text in (grid, git))
    tree = {".gridignore": grid, ".gitignore": git, f"{folder}data/x.csv": "1"}
    plant(tmp_path / "w", {**tree, f"{folder}data/api.token": "s", f"{folder}data/sub/y.csv": "2"})
    found = {f"{folder}data/x.csv", f"{folder}data/sub/y.csv"}

    assert listed(tmp_path / "w", f"{folder}data") == found
    token = f"{folder}data/api.token"
    assert token in listed(tmp_path / "w", f"{folder}data", token)


@pytest.mark.parametrize("git", ["", "sub/\n"])
def test_a_gridignore_above_the_directory_counts_up_to_the_top_of_the_repository(
    tmp_path, listed, git
):
    tree = {".gridignore": "*", "repo/.git/HEAD": "", "repo/.gitignore": git, "repo/p/sub/a": ""}
    plant(tmp_path, {**tree, "repo/p/sub/api.token": "s", "repo/p/sub/b": "", "repo/p/sub/c": ""})
    plant(tmp_path, {"repo/.gridignore": "*.token\n/p/sub/b\n*", "repo/p/.gridignore": "/sub/c"})

    assert listed(tmp_path / "repo/p/sub") == {"a"}
    assert listed.left_out["../.gridignore"].paths == ("c",)
    assert listed.left_out["../../.gridignore"].count == 2


def test_the_files_of_git_that_are_not_in_the_directory_count(tmp_path, listed):
    top = plant(tmp_path / "repo", {"deep/er/a.log": "", "deep/er/b": "", "deep/er/c": "",
                                    "deep/er/d": "", "deep/er/e": ""})  # fmt: skip
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".git/info").mkdir(exist_ok=True)
    (top / ".git/info/exclude").write_text("/deep/er/b\n")
    (top / ".gitignore").write_text("*.log\n")
    (top / "deep/.gitignore").write_text("/er/c\n")
    plant(tmp_path / "xdg/git", {"ignore": "d\n"})

    assert listed(top / "deep/er") == {"e"}
    judged = subprocess.run(
        ["git", "-C", str(top / "deep/er"), "ls-files", "-o", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert set(judged.stdout.split()) == {"e"}
    plant(tmp_path, {"gitconfig": '[user]\nname = x\n[core] excludesFile = "~/mine" # c\n'})
    plant(tmp_path / "home", {"mine": "e\n"})
    assert listed(top / "deep/er") == {"d"}


def test_a_work_tree_of_git_has_its_excludes_elsewhere(tmp_path, listed):
    plant(tmp_path / "main/.git", {"info/exclude": "b\n", "worktrees/w/commondir": "../..\n"})
    gitdir = f"gitdir: {tmp_path}/main/.git/worktrees/w\n"
    root = plant(tmp_path / "w", {".git": gitdir, "a": "", "b": ""})

    assert listed(root) == {"a"}


def test_who_works_in_a_folder_that_git_ignores_means_that_folder(tmp_path, listed):
    plant(tmp_path / "repo", {".git/HEAD": "", ".gitignore": "*\n", "proj/a": ""})

    assert listed(tmp_path / "repo/proj") == {"a"}


def test_from_home_and_from_temporary_directories_nothing_travels_unasked(tmp_path, listed):
    home = plant(tmp_path / "home", {"a": "x"})
    for root in (home, home.parent, Path("/"), Path("/tmp")):
        assert not listed.files.may_travel(str(root))
        with pytest.raises(CannotShip):
            listed.files.pack(str(root), owner="j", amount=UNASKED)

    assert listed(home, "a") == {"a"}
    assert listed.files.may_travel(str(plant(home / "proj", {"b": ""})))


def test_who_wants_nothing_gets_an_empty_directory(tmp_path, listed):
    packed = listed.files.pack_nothing(owner="j")
    made = listed.files.unpack(packed.id, str(tmp_path / "made"))

    assert (made.entries, list((tmp_path / "made").iterdir())) == (0, [])


def test_too_much_names_the_largest_folders_of_what_would_travel(tmp_path, listed):
    tree = {"a/b/c/1": "x" * 900, "a/d/2": "x" * 500, "small": "x", "node_modules/x": "y" * 9000}
    root = plant(tmp_path / "w", tree)
    with pytest.raises(TooMuch, match=r"the most is in a/b/ \(900 B in 1 files\), a/d/") as caught:
        listed(root, amount=Amount(bytes_max=1_000, files_max=100))

    assert caught.value.size_bytes == 1401


def test_a_gitignore_of_ten_thousand_lines_that_is_no_text_is_obeyed_to_its_end(tmp_path, listed):
    lines = [b"/gone/set%d/" % number for number in range(10_000)]
    odd = [
        b"\xff\xfe\x80*",
        b"!\xff\xfe\x80keep",
        b"[",
        b"[z-a]",
        b"\\",
        b"!",
        b"a\0b",
    ]
    root = plant(tmp_path / "w", {".gitignore": b"\r\n".join([*lines, *odd, b"*.log", b"!ok.log"])})
    for name in (b"\xff\xfe\x80no", b"\xff\xfe\x80keep", b"x.log", b"ok.log", b"b.py"):
        Path(os.fsdecode(bytes(root) + b"/" + name)).touch()
    plant(root, {"gone/set9999/a": "", "gone/stays": ""})

    assert listed(root) == {".gitignore", r"\xff\xfe\x80keep", "ok.log", "b.py", "gone/stays"}


def test_files_that_vanish_while_they_are_listed_are_not_there(tmp_path, listed, monkeypatch):
    from distributed_grid.edges.artifacts import walking

    root = plant(tmp_path / "w", {"a/1": "", "b/2": "", ".gitignore": "x", "c": ""})
    real = walking.Walk._note

    def note(self, folder, path, entry):
        (root / "c").unlink(missing_ok=True)
        (root / "b/2").unlink(missing_ok=True)
        return real(self, folder, path, entry)

    monkeypatch.setattr(walking.Walk, "_note", note)

    assert listed(root) == {"a/1", ".gitignore"}


def test_of_a_directory_that_is_left_out_whole_naming_it_is_refused(tmp_path):
    root = plant(tmp_path / "w", {".gridignore": "*", "a": "x"})
    files = files_of(a_store(tmp_path / "cache"))
    with pytest.raises(BadValue, match=r"\.gridignore"):
        files.pack(str(root), owner="job", amount=ASKED, paths=(".",))
