"""What would travel is listed without taking it, and who leaves without files is told so."""
# ruff: noqa: F811  (fixtures come by import)

import pytest

from distributed_grid.wire.across_api import Pack
from tests.node_world import fill
from tests.unit.agent.test_luggage import lab, tree  # noqa: F401  (fixtures)
from tests.unit.artifacts.lab import plant


def story(lab, spec):
    return [line.detail for line in lab.home.node.coordinator.jobs[spec.id].story]


async def listed(lab, directory, **wishes):
    packed = await lab.setting_out.pack(Pack(directory=str(directory), is_dry=True, **wishes))
    assert packed.ship is None
    return packed.travelling


@pytest.mark.parametrize(
    ("wishes", "files"),
    [
        ({}, {("a", 1), ("d/b", 1), (".gitignore", 4)}),
        ({"ship_ignored": True}, {("a", 1), ("d/b", 1), (".gitignore", 4), ("log", 3)}),
        ({"paths": ("log",)}, {("log", 3)}),
        ({"is_nothing": True}, set()),
    ],
)
def test_a_dry_run_lists_files_with_sizes_and_takes_none(lab, tree, wishes, files):
    plant(tree, {".gitignore": "log\n", "log": "123", ".env": "secret"})

    async def test(lab):
        before = lab.stores[0].status()
        found = await listed(lab, tree, **wishes)
        assert set(found.files) == files
        assert found.size_bytes == sum(size for _, size in files)
        assert lab.stores[0].status() == before
        if wishes.get("is_nothing"):
            assert "you said so" in found.note

    lab(test)


def test_a_dry_run_from_home_says_that_nothing_travels(lab, tmp_path):
    home = plant(tmp_path / "me", {"a": "1"})

    async def test(lab):
        found = await listed(lab, home)
        assert (found.files, "it is your home directory" in found.note) == ((), True)
        assert (await listed(lab, home, paths=(str(home / "a"),))).files == (("a", 1),)

    lab(test)


def test_nothing_is_what_somebody_gets_who_says_so(lab, tree):
    async def test(lab):
        packed = await lab.setting_out.pack(Pack(directory=str(tree), is_nothing=True))
        assert (packed.ship.files, packed.ship.size_bytes) == (0, 0)
        (spec,) = await lab.setting_out.taken((lab.a_spec(tree, ship=packed.ship),))
        assert spec.ship == packed.ship

    lab(test)


def test_a_job_that_leaves_its_home_directory_says_so_once(lab, tmp_path):
    home = plant(tmp_path / "me", {"a": "1"})

    async def test(lab):
        fill(lab.home)
        lab.home.submit(spec := lab.a_spec(home))
        for lease in ("one", "two"):
            await lab.told(spec, lease)
            for task in list(lab.tasks):
                await task
        said = f"nothing of {home} travels (it is your home directory): it starts in an empty"
        assert len([one for one in story(lab, spec) if one.startswith(said)]) == 1

    lab(test)


def test_links_that_lead_outside_are_named_in_its_story(lab, tree):
    plant(tree, {"out": ("/etc/passwd",)})

    async def test(lab):
        fill(lab.home)
        lab.home.submit(spec := lab.a_spec(tree))
        (start,) = await lab.told(spec, "one")
        for task in list(lab.tasks):
            await task
        assert start.spec.ship.files == 2
        assert "links that lead outside stay at home: out -> /etc/passwd" in story(lab, spec)

    lab(test)


def test_what_is_told_of_directories_is_bounded(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.setting_out.LOOKS_MAX", 1)
    plant(tree, {"out": ("/etc/passwd",)})

    async def test(lab):
        for name in ("x", "y"):
            plant(tree, {name: name})
            await lab.setting_out.pack(Pack(directory=str(tree)))
        assert len(lab.setting_out._notes) == 1

    lab(test)
