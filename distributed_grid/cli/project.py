"""A project's defaults for `grid run`: the table [tool.grid] of pyproject.toml, or grid.toml.

Lives here: where such a file is, and what it may say. Never here: what the words mean (`run`).
Every `grid run` looks for one: it costs some looks at names, and is read only if it speaks of Grid.
"""
# pathlib would cost every `grid run` some milliseconds.
# ruff: noqa: PTH109, PTH113, PTH118, PTH119, PTH120, PTH123

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from distributed_grid.cli.tell import tell
from distributed_grid.client.upwards import upwards
from distributed_grid.errors import BadInput, BadValue, GridError, UnknownName

if TYPE_CHECKING:
    import click

OWN: Final = "grid.toml"  # Wins over the other one beside it.
SHARED: Final = "pyproject.toml"
FILE_BYTES_MAX: Final = 1 << 20
OWN_BYTES_MAX: Final = 1 << 16
DOTS_MAX: Final = 1_000  # Of a line: a key with many costs the parser their square.
KEYS: Final = (
    "cpus", "memory", "storage", "gpus", "resource", "timeout", "retries", "max-losses", "priority",
    "project", "env", "env-file", "image", "node", "on-class", "label", "avoid", "policy",
    "locality", "max-latency", "no-battery", "ship", "ship-ignored", "output", "python-env",
)  # fmt: skip
_PATHS: Final = ("ship", "env-file", "python-env")  # They count from the file.
_WORDS: Final = ("none", "auto")  # In place of a path.


class Project(NamedTuple):
    """What a file says."""

    file: str
    table: dict[str, Any]

    def place(self, key: str) -> str:
        """Where in it a key is."""
        return key if os.path.basename(self.file) == OWN else f"tool.grid.{key}"

    def named(self, error: GridError) -> GridError:
        """The same error, with this file if that is where the wrong word is."""
        key = error.field.replace("_", "-") if isinstance(error, BadValue) else ""
        key = error.kind if isinstance(error, UnknownName) else key
        key = {"resources": "resource", "outputs": "output"}.get(key, key)
        return self.bad(key, error.message, error.remedy) if key in self.table else error

    def in_use(self, ctx: "click.Context") -> "Project":
        """The same, without what the command line says, too."""
        from click.core import ParameterSource

        names = {"resource": "resources"}
        sources = {
            key: ctx.get_parameter_source(names.get(key, key.replace("-", "_")))
            for key in self.table
        }
        kept = [key for key, source in sources.items() if source == ParameterSource.DEFAULT_MAP]
        return self._replace(table={key: self.table[key] for key in kept})

    def bad(self, key: str, problem: str, remedy: str) -> BadInput:
        """What is wrong with a key."""
        return BadInput(self.file, path=self.place(key), problem=problem, remedy=remedy)


NONE: Final = Project("", {})


def found() -> Project | None:
    """The nearest, from here up to the top of the repository or the home directory."""
    try:
        at = os.getcwd()
    except OSError:
        return None
    for folder in upwards(at):
        for name in (OWN, SHARED):
            path = os.path.join(folder, name)
            if (table := _table(path)) is not None:
                return Project(path, {key.replace("_", "-"): table[key] for key in table})
    return None


def _table(path: str) -> dict[str, Any] | None:
    """What a file says of Grid; None: nothing, or it is somebody else's."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            body, owner = file.read(FILE_BYTES_MAX + 1), os.fstat(file.fileno()).st_uid
    except OSError:
        return None
    is_own = path.endswith(f"/{OWN}")
    plain = body.translate(
        None, b" \t\"'"
    )  # However it is written; to parse it costs milliseconds.
    if not is_own and not any(word in plain for word in (b"tool.grid", b"[tool]", b"tool=")):
        return None
    if owner not in (0, os.geteuid()):  # Of a directory that others write to, as /tmp.
        tell(f"grid: {path} is left alone: it is another user's")
        return None
    import tomllib

    problem, table = "", cast(Any, None)
    try:
        if len(body) > (bytes_max := OWN_BYTES_MAX if is_own else FILE_BYTES_MAX):
            problem = f"has more than {bytes_max} bytes"
        elif any(line.count(b".") > DOTS_MAX for line in body.splitlines()):
            problem = f"has a line with more than {DOTS_MAX} dots"
        else:
            table = tomllib.loads(body.decode())
        for key in () if is_own else ("tool", "grid"):
            table = table.get(key) if isinstance(table, dict) else table
    except (ValueError, RecursionError) as error:  # Of too many digits, too, or brackets.
        problem = f"is no TOML: {error}"
    if problem or not isinstance(table, dict | None):
        path_in = "$" if problem else "tool.grid"
        raise BadInput(path, path=path_in, problem=problem or "is no table", remedy="Mend it")
    return table


def defaults(project: Project, ctx: "click.Context") -> dict[str, Any]:
    """What it says, by the parameters of a command. Raises BadInput."""
    import click

    options = {name[2:]: one for one in ctx.command.params for name in one.opts if name[:2] == "--"}
    made = {}
    for key, value in project.table.items():
        if key not in KEYS or key not in options:
            raise project.bad(key, "is no default of grid run", _nearest(key))
        option = options[key]
        assert isinstance(option, click.Option)
        if not _fits(value, option):
            kind = "true or false" if option.is_flag else "text or a number"
            more = ", or a list of them" if option.multiple else ""
            raise project.bad(key, f"expected {kind}{more}, got {value!r}", "Mend it")
        values = [_placed(project, key, one) for one in (value if _is_list(value) else [value])]
        try:
            option.type_cast_value(ctx, values if option.multiple else values[0])
        except click.BadParameter as error:
            raise project.bad(
                key, error.message.rstrip("."), f"See grid run --help for --{key}"
            ) from None
        assert option.name is not None
        made[option.name] = values if option.multiple else values[0]
    return made


def _fits(value: Any, option: "click.Option") -> bool:
    if option.is_flag:
        return isinstance(value, bool)
    values = value if _is_list(value) and option.multiple else [value]
    return all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _placed(project: Project, key: str, value: Any) -> Any:
    """A path as one from the root on: the file may be above the directory of the job."""
    if key not in _PATHS or value in _WORDS:
        return value if isinstance(value, bool) else str(value)
    folder = os.path.dirname(project.file)
    path, top = os.path.join(folder, str(value)), os.path.realpath(folder)
    if key == "env-file" and os.path.commonpath([top, os.path.realpath(path)]) != top:
        remedy = "Say it with --env-file, not in this file"  # Others may have written that.
        raise project.bad(key, f"{value} is outside of {folder}", remedy)
    return path


def _nearest(key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, KEYS, n=1)
    return f"Did you mean '{close[0]}'" if close else f"Known: {', '.join(KEYS)}"
