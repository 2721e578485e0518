"""What the pages say about events and settings of the mesh is what the code says."""

import ast
import re
from pathlib import Path

import pytest

from distributed_grid.config import mesh_file, variables
from distributed_grid.kernel.mesh.event_names import BY_NAME, MESH_EVENTS
from distributed_grid.model import duration
from distributed_grid.model.mesh_settings import MeshSettings

ROOT = Path(__file__).parents[2]
EVENTS = (ROOT / "docs" / "reference" / "events.md").read_text("utf-8")
CONFIG = (ROOT / "docs" / "reference" / "config.md").read_text("utf-8")
SOURCES = [
    path.read_text("utf-8")
    for layer in ("kernel", "agent")
    for path in sorted((ROOT / "distributed_grid" / layer).rglob("*.py"))
    if path.name != "event_names.py"
]


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by their first cell."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def test_the_page_lists_the_events_of_the_mesh_in_the_order_of_the_code():
    fields = [", ".join(f"`{name}`" for name in event.fields) or "-" for event in MESH_EVENTS]

    assert list(rows(EVENTS, "The mesh").items()) == [
        (f"`{event.name}`", [event.level, told, event.meaning])
        for event, told in zip(MESH_EVENTS, fields, strict=True)
    ]


def tellings() -> list[tuple[str, set[str]]]:
    """Every event of the mesh that the code tells by a name it spells out, with its fields."""
    calls = [node for text in SOURCES for node in ast.walk(ast.parse(text))]
    found = []
    for call in calls:
        match call:
            case ast.Call(func=ast.Attribute(attr="tell"), args=[_, ast.Constant(str(name)), *_]):
                found.append((name, {word.arg for word in call.keywords if word.arg}))
            case ast.Call(
                func=ast.Name("Happened"), keywords=[ast.keyword("name", ast.Constant(name)), *_]
            ):
                found.append((name, set()))
    return [(name, fields) for name, fields in found if name.startswith(("node.", "mesh."))]


def test_every_event_that_the_mesh_tells_is_in_the_table_with_its_fields():
    assert {name for name, _ in tellings()} <= set(BY_NAME)
    for name, fields in tellings():
        assert fields <= set(BY_NAME[name].fields), name


def test_every_event_of_jobs_is_on_the_page():
    written = set(re.findall(r'"((?:job|agent)\.[a-z_]+)"', "".join(SOURCES)))

    assert written == set(re.findall(r"`((?:job|agent)\.[a-z_]+)`", EVENTS))


def test_every_name_is_there_once_and_of_one_of_two_kinds():
    assert len(BY_NAME) == len(MESH_EVENTS)
    assert {name.partition(".")[0] for name in BY_NAME} == {"node", "mesh"}


@pytest.mark.parametrize("key", sorted(mesh_file.KEYS))
def test_the_reference_tells_the_default_of_every_key_of_the_mesh(key):
    default = getattr(MeshSettings(), mesh_file.KEYS[key].partition(".")[2])
    (told, _) = rows(CONFIG, "The mesh")[f"`{key.partition('.')[2]}`"]
    words = {"": "every address, a free port", (): "none", True: "true"}

    if key in ("mesh.relay", "mesh.allow"):
        assert told == {"mesh.relay": "none", "mesh.allow": "all"}[key]
    elif mesh_file.KEYS[key].endswith("_ms"):
        assert told == duration.text(default)
    elif mesh_file.KEYS[key].endswith("_centi"):
        assert told == str(default // 100)
    else:
        assert told == words.get(default, str(default))


def test_the_variables_are_named_after_their_keys():
    for variable, key in variables.VARIABLES.items():
        if key.startswith("mesh."):
            assert variable == f"GRID_{key.replace('.', '_').upper()}"
