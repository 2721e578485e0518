"""A project whose jobs leave the machine: defaults, environment, and what is lacking there."""

import subprocess
import sys

import pytest

from tests.mesh_jobs import PLAIN
from tests.mesh_lab import Member, MeshLab
from tests.unit.artifacts.lab import plant
from tests.unit.artifacts.test_environments import a_wheel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    wheels = a_wheel(tmp_path_factory.mktemp("wheels"))
    with MeshLab.on_loopback() as made:
        desk, attic = (made.member(name, config=PLAIN) for name in ("desk", "attic"))
        attic.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
        made.form([desk, attic])
        yield made


@pytest.fixture
def work(lab, request):
    """A repository of the person at the desk, which says where its jobs run."""
    files = {"grid.toml": 'node = ["attic"]\n', "below/t.py": "import tiny\nprint(tiny.VERSION)\n"}
    return plant(lab["desk"].dir / f"{request.node.name[:30]}", {".git": None, **files})


def run(member: Member, folder, *words: str):
    """`grid run` in a folder."""
    argv = [sys.executable, "-m", "distributed_grid", "run", *words]
    return subprocess.run(
        member.net.command(argv), env=member.env, cwd=folder, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_what_is_missing_on_the_other_machine_is_told_with_its_name_and_a_remedy(lab, work):
    (work / "tool.sh").write_text("#!/bin/sh\n")
    (work / "tool.sh").chmod(0o755)
    (work / ".gitignore").write_text("tool.sh\n")
    desk = lab["desk"]
    command = run(desk, work, "no-such-tool", "x")
    kept = run(desk, work, "./tool.sh")
    module = run(desk, work, "python3", "below/t.py")
    at_home = run(desk, work, "--node", "desk", "no-such-tool", "x")
    (work / ".env").write_text("SECRET=1\n")
    secret = run(desk, work, "cat", ".env")
    shipped = run(desk, work, "--ship", ".env", "cat", ".env")

    assert (command.returncode, kept.returncode, module.returncode) == (127, 127, 1)
    assert "it ran on attic, where no-such-tool was not found; install it there" in command.stderr
    assert "it ran on attic, where there is no ./tool.sh; grid run --dry-run" in kept.stderr
    assert "it ran on attic, where Python has no module tiny; with tiny in" in module.stderr
    assert (at_home.returncode, "it ran on" in at_home.stderr) == (127, False)
    assert "it ran on attic, where there is no .env; grid run --dry-run" in secret.stderr
    assert "--ship .env sends it" in secret.stderr
    assert (shipped.returncode, shipped.stdout) == (0, "SECRET=1\n")


def test_how_to_build_an_environment_is_said_once_and_auto_builds_it_from_the_project(lab, work):
    (work / "requirements.txt").write_text("tiny==1.0\n")
    desk, plain = lab["desk"], ("python3", "-c", "import os; print(os.environ['GRID_NODE'])")
    here = run(desk, work, "--node", "desk", *plain)
    first, second = (run(desk, folder, *plain) for folder in (work, work / "below"))
    assert [one.stdout for one in (here, first, second)] == ["desk\n", "attic\n", "attic\n"]

    said = "with the Python there; --python-env auto builds an environment from requirements.txt"
    assert [said in one.stderr for one in (here, first, second)] == [False, True, False]

    with (work / "grid.toml").open("a") as file:
        file.write('python-env = "auto"\n')
    built = run(desk, work / "below", "python", "t.py")
    assert (built.returncode, built.stdout) == (0, "1.0\n"), built.stderr
