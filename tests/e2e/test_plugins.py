"""Does `grid place` use people's own policies and filters, and survive broken ones?"""

import json
import sys
from pathlib import Path

import pytest

CODE = '''
def quiet(job, node):
    """A policy: the longest name is the quietest."""
    return {"noise": 100 - len(node.name)}

def licensed(job, node):
    """A filter."""
    return None if node.labels.get("licence") == "yes" else f"{node.name} has no licence"

def raises(job, node):
    raise RuntimeError("two\\nlines")

def wrong(job, node):
    return "high"

def nothing(job, node):
    return None

number = 5
'''


@pytest.fixture
def files(tmp_path):
    nodes = [
        {
            "id": f"{n:064x}",
            "name": "n" * n,
            "labels": {"licence": "yes" if n % 2 else "no"},
            "capabilities": {"cpu_cores": 4},
            "capacity": {"cpu_cores": 4},
        }
        for n in range(1, 6)
    ]
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    (tmp_path / "job.json").write_text('{"name": "job"}')
    return ["--nodes", "nodes.json", "--job", "job.json"]


@pytest.fixture
def install(tmp_path):
    """Put a package with these entry points on the path, as pip would."""

    def put(policies="", filters="", package="my_package", code=CODE):
        site = tmp_path / "site"
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text(code)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[distributed_grid.policies]\n{policies}\n[distributed_grid.filters]\n{filters}\n"
        )
        return {"PYTHONPATH": str(site)}

    return put


def names(done):
    assert done.returncode == 0, done.stderr
    return [ranked["name"] for ranked in json.loads(done.stdout)["ranked"]]


@pytest.mark.rows("S4-22")
def test_a_policy_of_ones_own_is_used_by_name(grid, files, install):
    env = install(policies="quiet-hours = my_package:quiet")

    done = grid("place", *files, "--policy", "QuietHours", "--json", env=env)

    assert names(done) == ["nnnnn", "nnnn", "nnn", "nn", "n"]
    found = json.loads(done.stdout)
    assert found["policy"] == "quiet-hours"
    assert found["ranked"][0]["parts"]["noise"] == 95


def test_a_filter_of_ones_own_is_applied_and_gives_its_reason(grid, files, install):
    env = install(filters="licensed = my_package:licensed")

    done = grid("place", *files, "--json", env=env)
    text = grid("place", *files, env=env)

    assert sorted(names(done)) == ["n", "nnn", "nnnnn"]
    found = json.loads(done.stdout)
    assert found["filters"] == ["licensed"]
    assert [refusal["reasons"] for refusal in found["refused"]] == [
        [
            {
                "what": "filter.licensed",
                "wanted": None,
                "has": f"{name} has no licence",
                "kind": "policy",
            }
        ]
        for name in ("nn", "nnnn")
    ]
    assert "nn has no licence" in text.stdout


def one_line(done):
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.removesuffix("\n").isprintable()
    return done.stderr


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("my_package:raises", "RuntimeError"),
        ("my_package:wrong", "it returned 'high'"),
        ("my_package:nothing", "it returned None"),
        ("my_package:number", "cannot be called"),
        ("my_package:missing", "AttributeError"),
        ("no_package:quiet", "ModuleNotFoundError"),
    ],
)
def test_a_broken_policy_is_named_in_one_line(grid, files, install, target, words):
    env = install(policies=f"mine = {target}")

    line = one_line(grid("place", *files, "--policy", "mine", env=env))

    assert "the policy 'mine' failed" in line
    assert words in line
    assert "choose another policy" in line


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("my_package:raises", "RuntimeError"),
        ("my_package:quiet", "not None or a sentence"),
        ("my_package:number", "cannot be called"),
        ("no_package:quiet", "ModuleNotFoundError"),
    ],
)
def test_a_broken_filter_is_named_in_one_line(grid, files, install, target, words):
    env = install(filters=f"mine = {target}")

    line = one_line(grid("place", *files, env=env))

    assert "the filter 'mine' failed" in line
    assert words in line


def test_a_broken_policy_harms_nobody_who_does_not_ask_for_it(grid, files, install):
    env = install(policies="mine = no_package:quiet\nbestfit = my_package:quiet")

    assert len(names(grid("place", *files, "--policy", "Spread", "--json", env=env))) == 5
    assert len(names(grid("place", *files, "--json", env=env))) == 5


def test_names_of_grid_cannot_be_taken_and_unknown_ones_are_listed(grid, files, install):
    env = install(policies="best-fit = my_package:quiet\nquiet = my_package:quiet")

    taken = one_line(grid("place", *files, "--policy", "BestFit", env=env))
    unknown = grid("place", *files, "--policy", "loud", env=env)

    assert "that name is one of Grid's own" in taken
    assert unknown.returncode == 2
    assert unknown.stderr.rstrip().endswith("Spread, best-fit, quiet.")


def test_two_packages_cannot_have_one_name(grid, files, install, tmp_path):
    env = install(policies="mine = my_package:quiet")
    install(policies="mine = other_package:quiet", package="other_package")

    line = one_line(grid("place", *files, "--policy", "mine", env=env))

    assert "two packages register that name" in line


@pytest.mark.slow
def test_a_package_installed_by_pip_works_the_same(grid, files, tmp_path, clean_env):
    """The documented way, with the entry points in a pyproject.toml."""
    import subprocess

    project = tmp_path / "project"
    project.mkdir()
    (project / "my_package.py").write_text(CODE)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "my-package"\nversion = "1.0"\n'
        '[project.entry-points."distributed_grid.policies"]\nquiet = "my_package:quiet"\n'
    )
    site = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(site), str(project)]
    subprocess.run(command, env=clean_env, check=True, capture_output=True)

    done = grid("place", *files, "--policy", "quiet", "--json", env={"PYTHONPATH": str(site)})

    assert Path(site, "my_package.py").exists()
    assert names(done)[0] == "nnnnn"
