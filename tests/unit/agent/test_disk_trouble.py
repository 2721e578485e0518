"""A store that cannot read for a moment: transfers end and are told, the agent goes on."""

import asyncio

import pytest

from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.edges.artifacts import CacheFailed
from distributed_grid.edges.artifacts.environments import Environments
from distributed_grid.wire.keeper import Stop
from tests.unit.agent.housing_lab import Lab, run_in_lab
from tests.unit.agent.luggage_lab import Lab as Luggage
from tests.unit.agent.luggage_lab import in_a_lab
from tests.unit.artifacts.lab import ADA, noise, packed, plant, two_nodes


def troubled(*_, **__):
    raise CacheFailed("/cache", why="Too many open files")


@pytest.mark.parametrize("what", ["manifest", "chunk"])
async def test_a_sender_that_cannot_read_says_no_and_goes_on(tmp_path, monkeypatch, what):
    tree = plant(tmp_path / "tree", {"a": noise(100_000)})
    async with two_nodes(tmp_path) as (_, ada, bob):
        broken = []
        ada.broke = broken.append
        name = packed(ada, tree)
        get, lost = ada.chunks.get, ada.chunks.manifest(name).chunks
        with monkeypatch.context() as patched:
            if what == "manifest":
                patched.setattr(ada.chunks, "pin", troubled)
            else:
                here = lambda digest: troubled() if digest in lost else get(digest)  # noqa: E731
                patched.setattr(ada.chunks, "get", here)
            with pytest.raises(NotFetched):
                await asyncio.wait_for(bob.fetch(ADA, name), 5)
        await bob.fetch(ADA, name)

        assert not broken
        assert bob.chunks.manifest(name) is not None


def test_what_cannot_be_pinned_now_is_pinned_at_the_next_look(tmp_path, monkeypatch):
    async def test(lab):
        spec = lab.a_spec(plant(tmp_path / "tree", {"a": "1"}))
        lab.home.submit(spec)
        await lab.told(spec)
        await lab.pinning.look()
        lab.pinning._pinned.clear()  # As after a start.
        with monkeypatch.context() as patched:
            patched.setattr(lab.stores[0], "pin", troubled)
            await lab.pinning.look()
        await lab.pinning.look()

        assert lab.pinning._pinned

    in_a_lab(lambda: Luggage(tmp_path), test)


def test_an_environment_is_used_until_its_job_is_over_whoever_began_it(tmp_path, clean_env):
    def begun_anew(lab):
        again = Environments(lab.ground.pythons._root, environ={})
        lab.ground = type(lab.ground)(
            root=lab.ground.root, files=lab.files, fetch=lab.fetch, pythons=again,
            clock_ms=lab.ground.clock_ms,
        )  # fmt: skip
        lab.connect()
        return again

    async def test(lab: Lab):
        root = plant(tmp_path / "w", {"requirements.txt": ""})
        recipe = lab.files.pack_recipe(str(root), "requirements.txt", owner="test")
        await lab.runner.send(lab.a_run(abroad=False, python_env=recipe.id))
        await lab.started()
        pythons = begun_anew(lab)
        pythons._note(next(iter(pythons._users)), "of an attempt that was lost")
        pythons = begun_anew(lab)
        await lab.runner.tidy()
        before = pythons.users()
        await lab.keeper.send(Stop(attempt="one"))
        await lab.reports()

        assert before == {"one"}
        assert pythons.users() == set()

    run_in_lab(test, tmp_path, clean_env)
