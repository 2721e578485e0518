"""The wheel alone: built, installed from a local index, and used where no checkout is."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from distributed_grid import __version__
from distributed_grid.bootstrap import packing
from tests.agent_lab import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
SOURCES = ("pyproject.toml", "README.md", "LICENSE")
FIRST_JOB_S = 20.0


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """A directory with our wheel, and with those of what it needs."""
    sources, made = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("index")
    for name in SOURCES:
        shutil.copy(ROOT / name, sources)
    shutil.copytree(
        ROOT / "distributed_grid",
        sources / "distributed_grid",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(sources))
    for one in packing.distributions():
        if one.name != "distributed-grid":
            packing.write_wheel(one, made)
    return made


def pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        env={**os.environ, "PIP_NO_INDEX": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def elsewhere():
    """A short path: the socket of the agent is below it."""
    made = Path(tempfile.mkdtemp(prefix="grid-wheel-"))
    yield made
    shutil.rmtree(made)


def test_the_wheel_works_without_the_checkout_and_runs_its_first_job_soon(index, elsewhere):
    python = elsewhere / "venv/bin/python"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(elsewhere), "LC_ALL": "C.UTF-8"}

    def grid(*words: str) -> str:
        done = subprocess.run(
            [str(python.with_name("grid")), *words],
            env=env, cwd=elsewhere, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [getattr(sys, "_base_executable", sys.executable), "-m", "venv", "--without-pip"]
    subprocess.run([*words, str(elsewhere / "venv")], check=True, timeout=120)
    pip(
        "--python",
        str(python),
        "install",
        "--quiet",
        "--find-links",
        str(index),
        "distributed-grid",
    )
    try:
        assert "attic is up" in grid("up", "--detach", "--name", "attic")
        said = grid("run", "echo", "hi")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        where = "import distributed_grid; print(distributed_grid.__file__)"
        home = subprocess.check_output([python, "-c", where], cwd=elsewhere, text=True, timeout=60)
        mapped = "import distributed_grid as g; print(list(g.connect().map(abs, [-1, -2])))"
        results = subprocess.check_output(
            [python, "-c", mapped], env=env, cwd=elsewhere, text=True, timeout=120
        )
    finally:
        grid("down", "--stop-jobs")

    assert said == "hi\n"
    assert home.startswith(f"{elsewhere}/venv/")
    assert results == "[1, 2]\n"
    assert grid("version").startswith(f"grid {__version__}")
    # Of the processor: other tests may run beside this one.
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took_s < FIRST_JOB_S
