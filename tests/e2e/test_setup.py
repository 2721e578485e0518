"""A newcomer's first minute: set-up, its repairs, its refusals, and the words of the Makefile.

The set-up runs for real on this checkout. Where that would cost minutes or change the machine it
runs on a copy of the project file, with GRID_SETUP_DRY_RUN, which prints the steps it would take.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).resolve().parent.parent.parent
# What the set-up itself needs of a system, without Python, compiler and package manager.
BARE = ("bash", "cat", "cut", "dirname", "env", "flock", "mkdir", "mv", "rm", "sha256sum", "touch")


def tools(folder: Path, *names: str, **stand_ins: str) -> str:
    """A PATH with these tools only; a stand-in is a shell script under that name."""
    folder.mkdir(exist_ok=True)
    for name in (*BARE, *names):
        found = shutil.which(name)
        assert found, f"this machine has no {name}"
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(found)
    for name, script in stand_ins.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
    return str(folder)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout with nothing set up yet."""
    place = tmp_path / "checkout"
    (place / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", place / "scripts")
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def setup(
    checkout: Path, *words: str, env: Mapping[str, str], dry: bool = True
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "scripts" / "setup"), *words],
        env={**env, "GRID_SETUP_DRY_RUN": "1"} if dry else dict(env),
        cwd=checkout.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_a_second_setup_is_quick_and_needs_no_network(clean_env):
    env = {**clean_env, "PIP_NO_INDEX": "1"}
    first = setup(ROOT, env=env, dry=False)
    assert first.returncode == 0, first.stderr
    began = time.monotonic()
    second = setup(ROOT, env=env, dry=False)
    took_s = time.monotonic() - began

    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert took_s < 2


def test_a_fresh_checkout_gets_a_venv_and_the_project(copy, clean_env):
    done = setup(copy, env=clean_env)

    assert done.returncode == 0, done.stderr
    steps = done.stdout.splitlines()
    assert steps[0].endswith("-m venv .venv")
    assert steps[-2].endswith("pip install --quiet --no-build-isolation --editable .[dev]")


def test_no_python_is_named_with_its_package(copy, tmp_path):
    path = tools(tmp_path / "bin")
    done = setup(copy, "demo", env={"PATH": path, "HOME": str(tmp_path)})

    assert done.returncode == 1
    assert "no Python 3.11 or newer was found" in done.stderr
    assert "python3 python3-venv" in done.stderr


def test_an_old_python_is_not_taken_for_a_new_one(copy, tmp_path):
    path = tools(tmp_path / "bin", python3="exit 1")
    done = setup(copy, "demo", env={"PATH": path, "HOME": str(tmp_path)})

    assert "no Python 3.11 or newer was found" in done.stderr


def test_a_python_without_venv_is_named_with_its_package(copy, tmp_path):
    no_venv = f'case "$*" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac'
    path = tools(tmp_path / "bin", python3=no_venv)
    done = setup(copy, "demo", env={"PATH": path, "HOME": str(tmp_path)})

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.returncode == 1
    assert f"Python {version} cannot make virtual environments" in done.stderr
    assert f"python{version}-venv" in done.stderr


def test_a_missing_compiler_is_named_for_the_tests_and_not_asked_for_by_the_demo(copy, tmp_path):
    path = tools(tmp_path / "bin", python3=f'exec {sys.executable} "$@"')
    env = {"PATH": path, "HOME": str(tmp_path)}
    for_tests, for_demo = setup(copy, env=env), setup(copy, "demo", env=env)

    assert for_tests.returncode == 1
    assert "the tests need a C compiler" in for_tests.stderr
    assert "gcc libc6-dev" in for_tests.stderr
    assert for_demo.returncode == 0, for_demo.stderr


@pytest.mark.parametrize(("user", "root"), [("0", True), ("1000", False)])
def test_root_gets_packages_installed_and_others_get_the_command(copy, tmp_path, user, root):
    path = tools(
        tmp_path / "bin",
        python3=f'exec {sys.executable} "$@"',
        apt_get="exit 0",
        id=f"echo {user}",
    )
    done = setup(copy, env={"PATH": path, "HOME": str(tmp_path)})

    if root:
        assert done.returncode == 0, done.stderr
        assert re.search(r"would run: .*apt-get install -y .*gcc libc6-dev", done.stderr)
    else:
        assert done.returncode == 1
        assert "Run: sudo apt-get install -y gcc libc6-dev" in done.stderr


def half_a_venv(checkout: Path) -> None:
    """As a set-up leaves it that was killed while it made the venv."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "pyvenv.cfg").write_text("home = /nowhere\n", encoding="utf-8")


def a_venv_of_a_python_that_is_gone(checkout: Path) -> None:
    half_a_venv(checkout)
    (checkout / ".venv" / "bin" / "python").symlink_to("/nowhere/bin/python3.11")


def a_venv_in_which_pip_was_killed(checkout: Path) -> None:
    a_good_venv(checkout)
    (checkout / ".venv" / ".at-work").touch()


@pytest.mark.parametrize(
    "harm", [half_a_venv, a_venv_of_a_python_that_is_gone, a_venv_in_which_pip_was_killed]
)
def test_a_broken_venv_is_made_anew(copy, clean_env, harm):
    harm(copy)
    done = setup(copy, env=clean_env)

    assert done.returncode == 0, done.stderr
    assert "making it anew" in done.stderr
    assert done.stdout.splitlines()[0] == "would run: rm -rf .venv"


def a_good_venv(checkout: Path) -> Path:
    """The venv of these tests, borrowed: what the set-up asks of one, it can do."""
    folder = checkout / ".venv" / "bin"
    folder.mkdir(parents=True)
    python = folder / "python"
    python.write_text(f'#!/bin/bash\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python


def test_a_good_venv_is_kept_and_the_project_is_installed_into_it(copy, clean_env):
    a_good_venv(copy)
    done = setup(copy, env=clean_env)

    assert "-m venv" not in done.stdout
    assert "would run: rm -rf" not in done.stdout
    assert "--editable .[dev]" in done.stdout


def test_the_stamp_ends_the_work_until_the_project_file_or_its_place_changes(copy, clean_env):
    a_good_venv(copy)
    # The real pip is replaced: what counts here is when it is called.
    python = copy / ".venv" / "bin" / "python"
    python.write_text(
        f'#!/bin/bash\ncase "$*" in *"pip install"*) exit 0;; *) exec {sys.executable} "$@";; esac\n',
        encoding="utf-8",
    )
    shutil.copy(python, python.with_name("grid"))
    assert setup(copy, env=clean_env, dry=False).stderr.endswith("setup: ready\n")

    assert setup(copy, env=clean_env).stdout == ""
    moved = copy.rename(copy.with_name("moved"))
    assert "--editable" in setup(moved, env=clean_env).stdout
    moved.rename(copy)
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert "--editable" in setup(copy, env=clean_env).stdout


def test_an_install_that_fails_leaves_no_stamp_and_says_so(copy, clean_env):
    python = a_good_venv(copy)
    python.write_text(
        f'#!/bin/bash\ncase "$*" in *"pip install"*) exit 1;; *) exec {sys.executable} "$@";; esac\n',
        encoding="utf-8",
    )
    done = setup(copy, env=clean_env, dry=False)

    assert done.returncode == 1
    assert "pip could not install the project" in done.stderr
    assert not (copy / ".venv" / ".set-up").exists()
    assert not (copy / ".venv" / ".at-work").exists()


def test_two_setups_at_once_take_turns(copy, clean_env):
    python = a_good_venv(copy)
    gate = copy / "gate"
    os.mkfifo(gate)
    # The first one stands in pip until somebody opens the gate.
    python.write_text(
        f'#!/bin/bash\ncase "$*" in *setuptools*) read -r _ <"{gate}";; *"pip install"*) ;;'
        f' *) exec {sys.executable} "$@";; esac\n',
        encoding="utf-8",
    )
    shutil.copy(python, python.with_name("grid"))
    command = [str(copy / "scripts" / "setup")]
    first = subprocess.Popen(command, env=clean_env, stderr=subprocess.PIPE, text=True)
    assert first.stderr
    assert "installing" in first.stderr.readline()
    second = subprocess.Popen(command, env=clean_env, stderr=subprocess.PIPE, text=True)
    assert second.stderr
    assert "another set-up is at work here" in second.stderr.readline()
    gate.write_text("go\n", encoding="utf-8")
    endings = first.communicate(timeout=30)[1], second.communicate(timeout=30)[1]

    assert (first.returncode, second.returncode) == (0, 0)
    assert endings == ("setup: ready\n", "")


def test_an_unknown_word_is_refused(copy, clean_env):
    done = setup(copy, "everything", env=clean_env)

    assert done.returncode == 1
    assert "scripts/setup [demo|test]" in done.stderr


# --- The words of the Makefile -------------------------------------------------------------------

WORDS = [
    "setup",
    "demo",
    "test",
    "check",
    "format",
    "unit",
    "sim",
    "soak",
    "nemesis",
    "fuzz-http",
    "fuzz",
    "edge",
    "docs",
    "reference",
    "e2e",
    "mesh",
    "bench",
    "rows",
    "rows-audit",
    "clean",
    "help",
]


def make(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *words], cwd=ROOT, env=dict(env), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", [[], ["help"]], ids=["make", "make help"])
def test_make_alone_lists_its_words(words, clean_env):
    done = make(*words, env=clean_env)

    assert sorted(re.findall(r"^  make ([a-z0-9-]+) +\S", done.stdout, re.MULTILINE)) == sorted(
        WORDS
    )


@pytest.mark.parametrize("word", WORDS)
def test_every_word_knows_what_it_would_do(word, clean_env):
    done = make("-n", word, env=clean_env)

    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "folder"),
    [
        pytest.param("unit", "tests/unit", marks=pytest.mark.rows("S2-109")),
        pytest.param("e2e", "tests/e2e", marks=pytest.mark.rows("S2-110")),
        pytest.param("edge", "tests/property", marks=pytest.mark.rows("S2-112")),
        ("mesh", "tests/mesh"),
    ],
)
def test_each_kind_of_test_runs_by_one_word_of_its_own(word, folder, clean_env):
    """Collected only: to run them here would be to run them twice."""
    others = {"tests/unit", "tests/e2e", "tests/docs", "tests/tidy"} - {folder}
    if word == "edge":
        others.discard("tests/e2e")
    done = make(word, "ARGS=--collect-only -q", env=clean_env)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"\n{folder}/" in f"\n{done.stdout}"
    assert not any(
        line.startswith(f"{other}/") for line in done.stdout.splitlines() for other in others
    )


def test_the_ci_runs_make_test_from_any_place(tmp_path):
    script = ROOT / ".ci" / "run"
    recorder = tools(tmp_path / "bin", "timeout", make='echo "$PWD: make $*"')
    done = subprocess.run(
        [str(script)],
        cwd=tmp_path,
        env={"PATH": recorder},
        capture_output=True,
        text=True,
        check=True,
    )

    assert os.access(script, os.X_OK)
    assert done.stdout == f"{ROOT}: make test NO_SKIPS=1\n"
