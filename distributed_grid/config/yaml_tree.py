"""YAML events as a tree of dicts, lists and text, built without trusting any of it.

Lives here: anchors, aliases, tags, duplicate keys, depth, all refused with path and line.
Never here: sizes and encodings (`documents`), what keys mean.
Invariant: nothing is built that was not read; an alias cannot multiply anything.
"""

from typing import Any

import yaml

from distributed_grid.errors import BadInput, shown

_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml where the wheel has it.
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_NO_KEY = object()  # A mapping that waits for its next key.


def build_tree(file: str, text: str, *, depth_max: int, lines: dict[str, int] | None = None) -> Any:
    """The one document in this text; `lines`, if given, gets the line of each key's path."""
    return _Builder(file, depth_max, lines).build(text)


class _Builder:
    """A stack of open containers; events push, fill and pop it."""

    def __init__(self, file: str, depth_max: int, lines: dict[str, int] | None = None) -> None:
        self.file = file
        self.lines = lines
        self.depth_max = depth_max
        self.stack: list[list[Any]] = []  # [container, key that waits for its value, its path]
        self.documents = 0
        self.last_key = ""
        self.result: Any = None

    def build(self, text: str) -> Any:
        try:
            for event in yaml.parse(text, Loader=_Loader):
                self._on(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            problem = f"{where}is not YAML: {error.problem or error.context}"
            raise self._bad(problem, "Check the indentation and the quotes") from None
        except yaml.YAMLError as error:
            first_line = str(error).split("\n", 1)[0]
            raise self._bad(f"is not YAML: {first_line}", "Check it with a YAML linter") from None
        if self.documents == 0:
            raise self._bad("is empty", "Write at least one entry")
        return self.result

    def _on(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_extras(event, tag_is_fine=event.tag is None or event.tag == "!")
            is_null = not event.style and event.value in _NULLS  # A quoted one is text.
            self._value(None if is_null else event.value, event, is_null_key=is_null)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._refuse_extras(event, tag_is_fine=event.tag is None)
            self._open({} if isinstance(event, yaml.MappingStartEvent) else [], event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.stack.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise self._bad(
                f"line {_line(event)}: uses the alias *{event.anchor}", "Write the value out"
            )
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self._bad(
                    f"line {_line(event)}: holds a second document", "Give one document a file"
                )

    def _refuse_extras(
        self,
        event: yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent,
        *,
        tag_is_fine: bool,
    ) -> None:
        if event.anchor is not None:
            raise self._bad(
                f"line {_line(event)}: uses the anchor &{event.anchor}", "Write the value out"
            )
        if not tag_is_fine:
            raise self._bad(
                f"line {_line(event)}: uses the tag {shown(event.tag)}", "Leave tags out"
            )

    def _open(self, container: Any, event: yaml.Event) -> None:
        if self.stack and self.stack[-1][1] is _NO_KEY and isinstance(self.stack[-1][0], dict):
            raise self._bad(f"line {_line(event)}: has a key that is not text", "Use plain keys")
        if len(self.stack) >= self.depth_max:
            raise self._bad(
                f"line {_line(event)}: is nested deeper than {self.depth_max} levels",
                "Flatten it; nothing here needs more than five",
            )
        self._value(container, event)
        path = self._path() if not self.stack else self._path_of_last()
        self.stack.append([container, _NO_KEY, path])

    def _value(self, value: Any, event: yaml.Event, *, is_null_key: bool = False) -> None:
        if not self.stack:
            self.result = value
            return
        container, key, _ = self.stack[-1]
        if isinstance(container, list):
            container.append(value)
        elif key is _NO_KEY:
            if is_null_key:
                raise self._bad(f"line {_line(event)}: has an empty key", "Name the key")
            if value in container:
                raise self._bad(
                    f"line {_line(event)}: has the key {shown(value)} twice", "Keep one of them"
                )
            self.stack[-1][1] = value
            if self.lines is not None:
                self.lines[f"{self._path()}.{value}"] = _line(event)
        else:
            container[key] = value
            self.stack[-1][1] = _NO_KEY
            self.last_key = key

    def _path(self) -> str:
        return self.stack[-1][2] if self.stack else "$"

    def _path_of_last(self) -> str:
        container, _, path = self.stack[-1]
        if isinstance(container, list):
            return f"{path}[{len(container) - 1}]"
        return f"{path}.{self.last_key}"

    def _bad(self, problem: str, remedy: str) -> BadInput:
        return BadInput(self.file, path=self._path(), problem=problem, remedy=remedy)


def _line(event: yaml.Event) -> int:
    return int(event.start_mark.line) + 1 if event.start_mark else 0
