"""Is everything that is read bounded? Every type that is decoded, field by field.

The types are found, not listed: decoders that modules keep, types that calls of `decode` and
`convert` name, and what the tables of routes promise.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import inspect

import distributed_grid
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.artifact import Manifest
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.wire.api import Route
from distributed_grid.wire.maps import MapNews
from distributed_grid.wire.tails import AskTails

ROOT = Path(distributed_grid.__file__).parent
# Whose numbers, texts and lists may be of any size, and why.
UNBOUNDED = {
    # Facts of a refusal and fields of an event are for people; the bytes of their answer are
    # bounded where it is read.
    "Problem.facts", "Event.fields",
    # A file of one's own as it was written; its depth and size are bounded where it is read.
    "ClusterConfig.told",
}  # fmt: skip


def modules() -> Iterator[Any]:
    """Every module of the package that may read something."""
    for path in sorted(ROOT.rglob("*.py")):
        if re.search(r"\b(Decoder|decode|convert|Route)\(|msgspec", path.read_text("utf-8")):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            yield importlib.import_module(".".join(parts).removesuffix(".__init__"))


@cache
def decoded() -> dict[str, Any]:
    """Every type that something in the package reads, by where that is."""
    found: dict[str, Any] = {"the configuration": ClusterConfig}  # It converts itself.
    for module in modules():
        for name, kept in vars(module).items():
            value = getattr(kept, "__self__", kept)  # Of `decode` itself.
            if isinstance(value, (msgspec.msgpack.Decoder, msgspec.json.Decoder)):
                found[f"{module.__name__}.{name}"] = value.type
            if isinstance(value, tuple) and value and isinstance(value[0], Route):
                for route in value:
                    found[f"{route.name} asked"] = route.request
                    if not isinstance(route.answer, str):
                        found[f"{route.name} answered"] = route.answer
        tree = ast.parse(Path(module.__file__).read_text("utf-8"))
        for number, kind in named(tree):
            try:
                meant = eval(compile(ast.Expression(kind), "<type>", "eval"), vars(module))
            except NameError:  # A parameter: whoever calls it names the type.
                continue
            found[f"{module.__name__}:{number}"] = meant
    return found


def named(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """The types that calls of `decode` and `convert` are given."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name == "decode":
            yield from ((node.lineno, word.value) for word in node.keywords if word.arg == "type")
        elif name == "convert" and len(node.args) == 2:
            yield node.lineno, node.args[1]


def unbounded(kind: Any) -> list[str]:
    """Each part of a type that has no bound, as `Struct.field`."""
    seen: set[type] = set()
    found: list[str] = []
    ahead: list[tuple[inspect.Type, str]] = [(inspect.type_info(kind), "itself")]
    while ahead:
        node, where = ahead.pop()
        if flaw := flaw_of(node):
            found.append(f"{where}: {flaw}")
        if isinstance(node, (inspect.StructType, inspect.NamedTupleType)):
            if node.cls not in seen:
                seen.add(node.cls)
                ahead += [(one.type, f"{node.cls.__name__}.{one.name}") for one in node.fields]
        else:
            ahead += [(part, where) for part in parts_of(node)]
    return [problem for problem in found if problem.partition(":")[0] not in UNBOUNDED]


def flaw_of(node: inspect.Type) -> str:
    """What of this kind has no bound; empty: it has one, or needs none."""
    if isinstance(node, inspect.IntType):
        ends = (node.gt, node.ge), (node.lt, node.le)
        return "" if all(end != (None, None) for end in ends) else "an int without both ends"
    if isinstance(node, (inspect.AnyType, inspect.DataclassType, inspect.TypedDictType)):
        return "anything at all"
    has_length = hasattr(node, "max_length")
    return f"{type(node).__name__} of any length" if has_length and node.max_length is None else ""


def parts_of(node: inspect.Type) -> Iterator[inspect.Type]:
    """What stands within it."""
    for name in ("item_type", "key_type", "value_type", "type"):
        part = getattr(node, name, None)
        if isinstance(part, inspect.Type):
            yield part
    yield from getattr(node, "item_types", ())
    yield from getattr(node, "types", ())


def test_everything_that_is_read_has_its_bounds_in_its_type():
    kinds = decoded()
    problems = {
        f"{where}: {problem}" for where, kind in kinds.items() for problem in unbounded(kind)
    }

    assert not problems, "\n".join(sorted(problems))


class Loose(msgspec.Struct):
    count: int
    ended: Annotated[int, msgspec.Meta(ge=0)]
    text: str | None
    names: tuple[Annotated[str, msgspec.Meta(max_length=1)], ...]
    by_name: dict[str, bytes]
    fine: tuple[tuple[bool, float], ...] | None


def test_what_has_no_bound_is_named_with_its_field():
    found = {problem.partition(":")[0] for problem in unbounded(Loose)}

    assert found == {f"Loose.{name}" for name in Loose.__struct_fields__}


def test_what_is_read_is_found_wherever_it_is_read():
    kinds = decoded()
    text = "\n".join(kinds)

    assert {Manifest, JobSpec, Job, Lease, MapNews, AskTails} <= {
        kind for kind in kinds.values() if isinstance(kind, type)
    }
    for part in ("wire.job_lane", "wire.mesh", "wire.artifacts", "runner.journal", "submit asked"):
        assert part in text


@pytest.mark.parametrize("name", sorted(UNBOUNDED))
def test_no_exception_is_stale(name, monkeypatch):
    monkeypatch.setattr("tests.tidy.test_bounds.UNBOUNDED", UNBOUNDED - {name})
    found = {
        problem.partition(":")[0] for kind in decoded().values() for problem in unbounded(kind)
    }

    assert found == {name}
