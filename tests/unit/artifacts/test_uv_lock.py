"""What a uv.lock pins, for machines that have no uv."""

import hashlib
import tomllib
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts import uv_lock
from distributed_grid.edges.artifacts.environments import Environments
from distributed_grid.edges.artifacts.requirements import recipe_of
from distributed_grid.edges.artifacts.uv_lock import pinned
from tests.unit.artifacts.lab import plant
from tests.unit.artifacts.test_environments import a_wheel

ROOT = """
version = 1
[[package]]
name = "mine"
version = "0.1.0"
source = { virtual = "." }
dependencies = [DEPENDENCIES]
"""


def package(name, version="1.0", *, source='registry = "index"', hashes=("sha256:1",), more=""):
    wheels = ", ".join(f'{{ url = "w", hash = "{one}" }}' for one in hashes)
    return (
        f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ {source} }}\n'
        f"wheels = [{wheels}]\n{more}\n"
    )


def lock(dependencies, *packages):
    return tomllib.loads("\n".join([ROOT.replace("DEPENDENCIES", dependencies), *packages]))


def test_all_that_a_project_needs_is_pinned_with_its_hashes_and_nothing_else():
    found = pinned(
        lock(
            '{ name = "numpy" }, { name = "torch" }',
            package("numpy", "2.0", hashes=("sha256:1", "sha256:2")),
            package("torch", more='dependencies = [{ name = "numpy" }, { name = "sympy" }]'),
            package("sympy", more='sdist = { url = "s", hash = "sha256:3" }'),
            package("pytest"),
        )
    )

    assert sorted(found) == [
        "numpy==2.0  --hash=sha256:1 --hash=sha256:2",
        "sympy==1.0  --hash=sha256:1 --hash=sha256:3",
        "torch==1.0  --hash=sha256:1",
    ]


def test_what_is_needed_only_somewhere_says_where():
    found = pinned(
        lock(
            """{ name = "a", marker = "sys_platform == 'linux'" }""",
            package("a", more="""dependencies = [{ name = "b", marker = "os_name == 'nt'" }]"""),
            package("b"),
        )
    )

    assert sorted(found) == [
        "a==1.0 ; (sys_platform == 'linux') --hash=sha256:1",
        "b==1.0 ; (os_name == 'nt') and (sys_platform == 'linux') --hash=sha256:1",
    ]


def test_of_two_versions_each_is_pinned_where_it_counts():
    found = pinned(
        lock(
            """{ name = "a", version = "1.0", source = { registry = "index" }, marker = "x" },
               { name = "a", version = "2.0", source = { registry = "index" }, marker = "y" }""",
            package("a", "1.0"),
            package("a", "2.0"),
        )
    )

    assert [line.split(" --")[0] for line in sorted(found)] == ["a==1.0 ; (x)", "a==2.0 ; (y)"]


def test_an_extra_brings_what_it_needs():
    more = '[package.optional-dependencies]\nfast = [{ name = "b" }]\n'
    packages = (package("a", more=more), package("b"))

    assert len(pinned(lock('{ name = "a" }', *packages))) == 1
    assert len(pinned(lock('{ name = "a", extra = ["fast"] }', *packages))) == 2


def test_packages_that_need_each_other_come_to_an_end():
    found = pinned(
        lock(
            '{ name = "a" }',
            package("a", more='dependencies = [{ name = "b" }]'),
            package("b", more='dependencies = [{ name = "a" }]'),
        )
    )

    assert len(found) == 2


@pytest.mark.parametrize(
    ("dependencies", "packages"),
    [
        ('{ name = "a" }', [package("a", source='git = "https://x"')]),
        ('{ name = "a" }', [package("a", source='editable = "lib"')]),
        ('{ name = "a" }', [package("a", hashes=())]),
        ('{ name = "a" }', []),
        ('{ name = "a" }', [package("a", "1"), package("a", "2")]),
        ("""{ name = "a", marker = "extra == 'x'" }""", [package("a")]),
        ("7", [package("a")]),
    ],
)
def test_what_only_uv_can_do_is_left_to_uv(dependencies, packages):
    assert pinned(lock(dependencies, *packages)) is None


def test_a_lock_without_a_project_or_with_too_many_ways_is_left_to_uv(monkeypatch):
    assert pinned({}) is None
    assert pinned({"package": [{"name": "a", "source": {"registry": "index"}}]}) is None
    monkeypatch.setattr(uv_lock, "STATES_MAX", 1)
    packages = [package(name) for name in "abc"]
    assert pinned(lock('{ name = "a" }, { name = "b" }, { name = "c" }', *packages)) is None


async def test_without_uv_pip_builds_what_the_lock_pins(tmp_path, clean_env):
    wheels = a_wheel(tmp_path / "wheels")
    a_wheel(wheels, "other")
    hashes = {
        file.name.partition("-")[0]: f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in wheels.iterdir()
    }
    needs = """dependencies = [{ name = "tiny", marker = "os_name == 'posix'" }]"""
    text = "\n".join(
        [
            ROOT.replace("DEPENDENCIES", '{ name = "tiny" }, { name = "other" }'),
            package("tiny", hashes=(hashes["tiny"], "sha256:" + "0" * 64)),  # One is of elsewhere.
            package("other", hashes=(hashes["other"],), more=needs),
        ]
    )
    root = plant(tmp_path / "w", {"uv.lock": text, "pyproject.toml": ""})
    environ = {**clean_env, "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1",
               "PIP_FIND_LINKS": str(wheels)}  # fmt: skip
    environments = Environments(str(tmp_path / "environments"), environ=environ)
    built = await environments.ready(recipe_of(str(root), "uv.lock"), user="a")

    assert built.tool == "pip"
    assert installed(built.path) >= {"tiny.py", "other.py"}


def installed(environment: str) -> set[str]:
    (packages,) = Path(environment).glob("lib/python*/site-packages")
    return {file.name for file in packages.iterdir()}
