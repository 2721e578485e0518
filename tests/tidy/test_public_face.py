"""The public names are few, sorted and there; a small command loads little."""

import importlib
import inspect
import json
import subprocess
import sys

import pytest

import distributed_grid

HEAVY = ("asyncio", "numpy", "psutil", "pynvml", "rich", "structlog", "yaml")


def test_the_public_names_are_sorted_and_nothing_else_is_public():
    public = {name for name in dir(distributed_grid) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(distributed_grid, name))}

    assert distributed_grid.__all__ == sorted(distributed_grid.__all__, key=str)
    # `Any` and `Final` are words of the file itself, not of the library.
    assert public - modules - {"Any", "Final"} == set(distributed_grid.__all__)


@pytest.mark.parametrize("name", distributed_grid.__all__)
def test_a_public_name_can_be_imported(name):
    assert getattr(distributed_grid, name) is not None


def test_a_name_that_is_not_there_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = distributed_grid.missing


def loaded_by(code: str) -> set[str]:
    """The modules a fresh interpreter holds after this code."""
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        # Measuring loads modules of its own.
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["--version"]], ids=" ".join)
def test_a_small_command_loads_nothing_heavy(arguments):
    loaded = loaded_by(
        f"from distributed_grid.cli.commands import grid\ngrid({arguments!r}, standalone_mode=False)"
    )

    assert "distributed_grid.cli" in loaded
    assert {name for name in HEAVY if name in loaded} == set()


def test_the_package_itself_loads_nothing_but_itself():
    loaded = loaded_by("import distributed_grid")

    assert {name for name in loaded if name.startswith("distributed_grid")} == {"distributed_grid"}


def test_every_command_of_the_list_exists():
    cli = importlib.import_module("distributed_grid.cli.commands")

    for module, _ in cli.COMMANDS.values():
        assert importlib.import_module(module).command.help
