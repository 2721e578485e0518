"""Python environments: built once, from what a project says, with a Python that it wants."""

import asyncio
import base64
import hashlib
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts import building
from distributed_grid.edges.artifacts.building import NotBuilt, PythonMismatch
from distributed_grid.edges.artifacts.environments import Environments
from distributed_grid.edges.artifacts.python_versions import allows
from distributed_grid.edges.artifacts.requirements import recipe_in, recipe_of
from distributed_grid.errors import BadInput, BadValue
from tests.unit.artifacts.lab import a_store, files_of, plant

HERE = ".".join(map(str, sys.version_info[:2]))


def a_wheel(folder, name="tiny", version="1.0"):
    """A package of one module, made by hand: nothing is fetched from anywhere."""
    info = f"{name}-{version}.dist-info"
    parts = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = ""
    for path, text in parts.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**parts, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            wheel.writestr(path, text)
    return folder


@pytest.fixture
def environ(tmp_path, clean_env):
    wheels = a_wheel(tmp_path / "wheels")
    return {
        **clean_env,
        "PATH": "/usr/bin:/bin",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }


@pytest.fixture
def environments(tmp_path, environ):
    return Environments(str(tmp_path / "environments"), environ=environ)


@pytest.mark.parametrize(
    ("wanted", "version", "is_allowed"),
    [
        ("", (3, 11, 2), True),
        (">=3.11", (3, 11, 2), True),
        (">=3.11, <3.13", (3, 12, 1), True),
        (">=3.11,<3.13", (3, 13, 0), False),
        ("==3.11", (3, 11, 0), True),
        ("==3.11", (3, 11, 2), False),
        ("==3.11.*", (3, 11, 2), True),
        ("!=3.11.*", (3, 11, 2), False),
        ("~=3.11", (3, 14, 0), True),
        ("~=3.11.1", (3, 11, 9), True),
        ("~=3.11.1", (3, 12, 0), False),
        (">3.11", (3, 11, 2), True),
        ("<=3.11", (3, 11, 2), False),
        ("===3.11.2", (3, 11, 2), True),
        (">=3.9,", (3, 11, 2), True),
    ],
)
def test_a_version_is_wanted_or_not(wanted, version, is_allowed):
    assert allows(wanted, version) is is_allowed


@pytest.mark.parametrize("wanted", ["3.11", ">=x", ">=3.11.*", ">=3.11;os", "~3"])
def test_a_wish_that_is_not_understood_is_told(wanted):
    with pytest.raises(BadValue, match="versions of Python"):
        allows(wanted, (3, 11, 2))


def test_what_an_environment_is_made_from_is_read(tmp_path):
    root = plant(
        tmp_path / "w",
        {
            "requirements.txt": "tiny\n-r more/dev.txt\n# -r not\n",
            "more/dev.txt": "-c ../limits.txt\n",
            "limits.txt": "tiny<2\n-r requirements.txt\n",
            "pyproject.toml": '[project]\nrequires-python = ">=3.11"\ndependencies = ["tiny"]\n',
            "uv.lock": 'version = 1\nrequires-python = "==3.11.*"\n',
        },
    )
    listed = recipe_of(str(root), "requirements.txt")
    project = recipe_of(str(root), "pyproject.toml")
    locked = recipe_of(str(root), "uv.lock")

    assert set(listed.files) == {"requirements.txt", "more/dev.txt", "limits.txt"}
    assert (project.requires_python, project.requirements) == (">=3.11", ("tiny",))
    assert locked.requires_python == "==3.11.*"
    assert set(locked.files) == {"uv.lock", "pyproject.toml"}
    assert len({listed.hash, project.hash, locked.hash}) == 3
    plant(root, {"limits.txt": "tiny<3\n-r requirements.txt\n"})
    assert recipe_of(str(root), "requirements.txt").hash != listed.hash


@pytest.mark.parametrize(
    ("entries", "name", "words"),
    [
        ({}, "requirements.txt", "No such file"),
        ({}, "../x.txt", "outside"),
        ({}, "/etc/hosts", "outside"),
        ({"r.txt": "-e .\n"}, "r.txt", "work directory"),
        ({"r.txt": "./lib\n"}, "r.txt", "work directory"),
        ({"r.txt": "lib @ file:///x\n"}, "r.txt", "work directory"),
        ({"r.txt": "x" * 9_000_000}, "r.txt", "more than"),
        ({"pyproject.toml": "["}, "pyproject.toml", "no TOML"),
        ({"pyproject.toml": "[project]\ndependencies = 3\n"}, "pyproject.toml", "no list"),
        ({"uv.lock": "version = 1\n"}, "uv.lock", "No such file"),
        ({f"{n}.txt": f"-r {n + 1}.txt\n" for n in range(30)}, "0.txt", "more than 20"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, entries, name, words):
    root = plant(tmp_path / "w", entries)

    with pytest.raises(BadInput, match=words):
        recipe_of(str(root), name)


@pytest.mark.slow
async def test_an_environment_is_built_once_for_everyone_and_kept(tmp_path, environments):
    root = plant(tmp_path / "w", {"requirements.txt": "tiny==1.0\n"})
    recipe = recipe_of(str(root), "requirements.txt")
    first, second = await asyncio.gather(
        environments.ready(recipe, user="a"), environments.ready(recipe, user="b")
    )
    log = (Path(first.path).parent / "build.log").read_text()
    third = await environments.ready(recipe, user="c")
    process = await asyncio.create_subprocess_exec(
        f"{first.path}/bin/python", "-c", "import tiny; print(tiny.VERSION)",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, _ = await process.communicate()

    assert told == b"1.0\n"
    assert first == second == third
    assert log.count(" -m venv ") == 1
    assert "Successfully installed tiny-1.0" in log
    assert (first.tool, first.python.rsplit(".", 1)[0]) == ("pip", HERE)
    assert first.size_bytes > 5_000


@pytest.mark.slow
async def test_a_build_that_fails_tells_why_and_keeps_its_log(tmp_path, environments):
    root = plant(tmp_path / "w", {"requirements.txt": "not-to-be-had==9\n"})

    with pytest.raises(NotBuilt, match="not-to-be-had") as caught:
        await environments.ready(recipe_of(str(root), "requirements.txt"), user="a")
    assert (await asyncio.to_thread(Path(caught.value.log).read_text)).startswith("$ ")


async def test_a_python_that_is_not_here_is_told_before_anything_is_built(tmp_path, environments):
    root = plant(tmp_path / "w", {"pyproject.toml": '[project]\nrequires-python = ">=3.99"\n'})
    recipe = recipe_of(str(root), "pyproject.toml")

    with pytest.raises(PythonMismatch, match=rf"wants Python >=3.99, this machine has {HERE}"):
        await environments.check(recipe)
    with pytest.raises(PythonMismatch):
        await environments.ready(recipe, user="a")
    assert not (tmp_path / "environments").exists()


async def test_another_python_of_the_machine_is_used_if_it_is_the_one(tmp_path, environ):
    other = plant(tmp_path / "bin", {"python3.12": "#!/bin/sh\necho 3 12 5\n"})
    (other / "python3.12").chmod(0o755)
    broken = plant(tmp_path / "bin", {"python3.13": "#!/bin/sh\necho nonsense\n"})
    (broken / "python3.13").chmod(0o755)
    here = Environments(
        str(tmp_path / "e"), environ={**environ, "PATH": f"{other}:{environ['PATH']}"}
    )
    root = plant(tmp_path / "w", {"requirements.txt": ""})
    found = await here.check(recipe_of(str(root), "requirements.txt"), python="==3.12.*")

    assert found == (str(other / "python3.12"), (3, 12, 5))


FAKE_UV = """#!{python}
# A stand-in for uv: it writes down what it was asked, and makes what a venv is known by.
import os, sys
with open({log!r}, "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
target = os.environ["UV_PROJECT_ENVIRONMENT"]
os.makedirs(target + "/bin", exist_ok=True)
if not os.path.exists(target + "/bin/python"):
    os.symlink(sys.executable, target + "/bin/python")
"""


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("requirements.txt", ["venv", "pip install"]),
        ("pyproject.toml", ["venv", "pip install"]),
        ("empty/pyproject.toml", ["venv"]),
        ("uv.lock", ["sync --frozen"]),
    ],
)
async def test_uv_builds_where_it_is_installed(tmp_path, environ, name, commands):
    tools = plant(tmp_path / "bin", {})
    (tools / "uv").write_text(FAKE_UV.format(python=sys.executable, log=str(tmp_path / "asked")))
    (tools / "uv").chmod(stat.S_IRWXU)
    here = Environments(
        str(tmp_path / "e"), environ={**environ, "PATH": f"{tools}:{environ['PATH']}"}
    )
    root = plant(
        tmp_path / "w",
        {
            "requirements.txt": "tiny\n",
            "pyproject.toml": '[project]\ndependencies = ["tiny"]\n',
            "empty/pyproject.toml": "[project]\n",
            "uv.lock": "version = 1\n",
        },
    )
    built = await here.ready(recipe_of(str(root), name), user="a")
    asked = (tmp_path / "asked").read_text().splitlines()

    assert built.tool == "uv"
    assert len(asked) == len(commands)
    assert all(line.startswith(word) for line, word in zip(asked, commands, strict=True))


async def test_who_comes_while_it_is_built_waits_for_the_same(tmp_path, environ):
    tools = plant(tmp_path / "bin", {})
    (tools / "uv").write_text(FAKE_UV.format(python=sys.executable, log=str(tmp_path / "asked")))
    (tools / "uv").chmod(stat.S_IRWXU)
    path = {**environ, "PATH": f"{tools}:{environ['PATH']}"}
    here = Environments(str(tmp_path / "e"), environ=path)
    recipe = recipe_of(str(plant(tmp_path / "w", {"r.txt": "tiny\n"})), "r.txt")
    built = await asyncio.gather(*(here.ready(recipe, user=f"{n}") for n in range(5)))

    assert len(set(built)) == 1
    assert len((tmp_path / "asked").read_text().splitlines()) == 2


def test_a_recipe_may_be_above_the_directory_of_the_job(tmp_path):
    """A project has one, and jobs begin in its folders."""
    top = plant(tmp_path / "w", {"all.txt": "-r base.txt\n", "base.txt": "tiny\n", "low": None})
    files = files_of(a_store(tmp_path / "cache"))
    packed = files.pack_recipe(str(top / "low"), str(top / "all.txt"), owner="test")
    files.unpack(packed.id, str(tmp_path / "there"))

    assert set(recipe_in(str(tmp_path / "there")).files) == {"all.txt", "base.txt"}


async def test_a_lock_of_uv_needs_uv(tmp_path, environments):
    root = plant(tmp_path / "w", {"uv.lock": "version = 1\n", "pyproject.toml": ""})

    with pytest.raises(NotBuilt, match="uv, which is not installed"):
        await environments.ready(recipe_of(str(root), "uv.lock"), user="a")


async def test_the_longest_unused_makes_room_but_none_that_is_used(tmp_path, environ):
    tools = plant(tmp_path / "bin", {})
    (tools / "uv").write_text(FAKE_UV.format(python=sys.executable, log=str(tmp_path / "asked")))
    (tools / "uv").chmod(stat.S_IRWXU)
    path = {**environ, "PATH": f"{tools}:{environ['PATH']}"}
    here = Environments(str(tmp_path / "e"), environ=path, environments_max=2)
    built = []
    for number in range(4):
        root = plant(tmp_path / f"w{number}", {"requirements.txt": f"# {number}\n"})
        built.append(
            await here.ready(recipe_of(str(root), "requirements.txt"), user=f"job{number}")
        )
        os.utime(tmp_path / "e" / built[-1].key, (number + 1, number + 1))
        if number:
            here.let_go(built[-1].key, f"job{number}")
    left = {path.name for path in (tmp_path / "e").iterdir()}

    assert left == {built[0].key, built[3].key}


async def test_a_build_that_is_given_up_ends(tmp_path, environ, monkeypatch):
    tools = plant(
        tmp_path / "bin", {"uv": f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n"}
    )
    (tools / "uv").chmod(0o755)
    path = {**environ, "PATH": f"{tools}:{environ['PATH']}"}
    here = Environments(str(tmp_path / "e"), environ=path)
    recipe = recipe_of(str(plant(tmp_path / "w", {"r.txt": ""})), "r.txt")
    waiting = asyncio.get_running_loop().create_task(here.ready(recipe, user="a"))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    await here.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pid = int((tmp_path / "pid").read_text())

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    monkeypatch.setattr(building, "BUILD_S_MAX", 0.05)
    with pytest.raises(NotBuilt, match="more than"):
        await here.ready(recipe, user="b")


def test_only_the_end_of_a_long_log_is_kept(tmp_path):
    log = tmp_path / "build.log"
    log.write_bytes(b"x" * building.LOG_BYTES_KEPT + b"the end")
    building._cut_log(str(log))

    assert log.stat().st_size == building.LOG_BYTES_KEPT
    assert log.read_bytes().endswith(b"the end")


def test_the_module_for_environments_is_there():
    done = subprocess.run([sys.executable, "-c", "import venv, ensurepip"], check=False)

    assert done.returncode == 0
