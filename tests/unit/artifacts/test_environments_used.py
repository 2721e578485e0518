"""Environments outlive agents: those that jobs use stay, and nobody writes into a new one."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts import environments
from distributed_grid.edges.artifacts.building import NotBuilt
from distributed_grid.edges.artifacts.environments import Environments
from distributed_grid.edges.artifacts.requirements import recipe_of
from tests.unit.artifacts.lab import plant

UV = f"""#!/bin/sh
mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"
ln -sf {sys.executable} "$UV_PROJECT_ENVIRONMENT/bin/python"
"""


@pytest.fixture
def agent(tmp_path, clean_env):
    """Another life of the agent: the same directory, nothing in memory."""

    def begin(uv=UV, tools="bin", **options):
        folder = plant(tmp_path / tools, {"uv": uv})
        (folder / "uv").chmod(0o755)
        environ = {**clean_env, "PATH": f"{folder}:/usr/bin:/bin"}
        return Environments(str(tmp_path / "e"), environ=environ, **options)

    return begin


@pytest.fixture
def recipe(tmp_path):
    def made(words):
        root = plant(tmp_path / words, {"requirements.txt": f"# {words}\n"})
        return recipe_of(str(root), "requirements.txt")

    return made


async def test_what_a_job_uses_stays_when_the_agent_is_another_one(agent, recipe):
    used = await agent().ready(recipe("used"), user="long")
    later = agent(environments_max=1)
    await later.ready(recipe("new"), user="other")

    assert os.path.exists(f"{used.path}/bin/python")  # noqa: ASYNC240, PTH110
    assert later.users() == {"long", "other"}


async def test_what_a_job_has_left_may_go_whoever_began_it(agent, recipe):
    first = agent()
    used = await first.ready(recipe("used"), user="long")
    ended = await first.ready(recipe("ended"), user="short")
    first.let_go(ended.key, "short")
    later = agent(environments_max=1)
    before = later.users()
    later.left("long")
    later.left("somebody else")
    await later.ready(recipe("new"), user="other")

    assert before == {"long"}
    assert not Path(used.path).exists()  # noqa: ASYNC240
    assert agent().users() == {"other"}


async def test_who_did_not_get_one_is_no_user(agent, recipe):
    first = agent(uv="#!/bin/sh\nexit 1\n")

    with pytest.raises(NotBuilt):
        await first.ready(recipe("broken"), user="job")
    assert first.users() == agent().users() == set()


async def test_what_an_earlier_build_still_writes_is_in_no_environment(tmp_path, agent, recipe):
    """As after a SIGKILL of the agent: what it had started goes on, in a session of its own."""
    os.mkfifo(tmp_path / "gate")
    lazy = f"#!/bin/sh\necho $$ > {tmp_path}/begun\nread word < {tmp_path}/gate\n{UV[10:]}\n"
    lazy += f'echo old > "$UV_PROJECT_ENVIRONMENT/stray"\nmv {tmp_path}/begun {tmp_path}/over\n'
    killed = agent(uv=lazy, tools="old")
    old = asyncio.create_task(killed.ready(recipe("same"), user="job"))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    built = await agent().ready(recipe("same"), user="job")
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    while not (tmp_path / "over").exists():
        await asyncio.sleep(0.01)
    old.cancel()
    await killed.close()

    assert os.listdir(built.path) == ["bin"]  # noqa: PTH208


async def test_what_another_build_left_is_removed(tmp_path, agent, recipe):
    first = agent()
    built = await first.ready(recipe("one"), user="job")
    first.let_go(built.key, "job")
    home = tmp_path / "e" / built.key
    (home / "built").unlink()
    plant(home, {"left/venv/file": "half"})
    again = await agent().ready(recipe("one"), user="job")

    assert again.path != built.path
    assert {path.name for path in home.iterdir()} == {Path(again.path).parts[-2], "built", "users"}


async def test_one_that_lost_its_python_is_built_beside_that_of_a_job_that_runs(agent, recipe):
    used = await agent().ready(recipe("one"), user="long")
    plant(Path(used.path), {"lib": "imported later"})
    (Path(used.path) / "bin/python").unlink()
    again = await agent().ready(recipe("one"), user="other")

    assert again.path != used.path
    assert (Path(used.path) / "lib").exists()


async def test_one_that_cannot_be_looked_at_now_is_not_built_anew(agent, recipe, monkeypatch):
    here = agent()
    built = await here.ready(recipe("one"), user="long")

    def failing(*_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(environments, "open", failing, raising=False)
        with pytest.raises(OSError, match="Too many"):
            await here.ready(recipe("one"), user="other")

    assert await here.ready(recipe("one"), user="other") == built


async def test_what_is_removed_by_half_is_not_taken_for_whole(agent, recipe, monkeypatch):
    here = agent(environments_max=1)
    old = await here.ready(recipe("old"), user="job")
    here.let_go(old.key, "job")
    monkeypatch.setattr(environments.shutil, "rmtree", lambda *_, **__: None)  # Killed there.
    await here.ready(recipe("new"), user="job")
    again = await agent().ready(recipe("old"), user="job")

    assert again.path != old.path


async def test_one_that_cannot_be_looked_at_stays_when_others_need_room(tmp_path, agent, recipe):
    strange = plant(tmp_path / "e/strange", {"built": None})
    here = agent(environments_max=1)
    built = await here.ready(recipe("new"), user="job")

    assert strange.exists()
    assert await agent().ready(recipe("new"), user="job") == built
