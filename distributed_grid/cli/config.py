"""`grid config`: what is set, where it came from, and whether a file is good.

Lives here: options, JSON, tables. Never here: reading and merging (`config.settings`).
"""

import os
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from distributed_grid.config.settings import USED, Loaded, load_settings
from distributed_grid.config.terms import at
from distributed_grid.model import bytesize, duration, milli
from distributed_grid.model.home import locate
from distributed_grid.model.lending import percent
from distributed_grid.model.settings import Origin

_BOOTSTRAP = frozenset({"nodes", "ssh.key_file"})  # Not the agent's business.
_ROOT_FLAGS = {"log_level": "logging.level", "log_format": "logging.format"}


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One value, as `grid config show --json` prints it."""

    key: str
    value: Any
    origin: Origin
    comes_with: str = ""  # Of what comes later: what it waits for.


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `grid config show --json` prints."""

    file: str | None
    settings: tuple[Shown, ...]
    later: tuple[Shown, ...]  # Known and checked; used in a later version.
    notes: tuple[str, ...]


@click.group("config")
def command() -> None:
    """What is set, and whether a file is good."""


@command.command("show")
@click.option("--config", "file", metavar="FILE", help="Read this file, not the usual ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def show(ctx: click.Context, *, file: str | None, as_json: bool) -> None:
    """Print each value with where it came from."""
    report = _report(_loaded(ctx, file))
    if as_json:
        click.echo(msgspec.json.encode(report))
        return
    from distributed_grid.cli import render

    out = render.out()
    rows = [
        (entry.key, _words(entry.value, USED[entry.key]), str(entry.origin))
        for entry in report.settings
    ]
    out.print(render.table("Settings", ("Key", "Value", "From"), rows))
    if report.later:
        out.print(_later_table(report.later))
    _tell(report.notes)


def _later_table(later: tuple[Shown, ...]) -> Any:
    from distributed_grid.cli import render

    titles = ["Key", "Value", "From"]
    rows = [[entry.key, _words(entry.value), str(entry.origin)] for entry in later]
    if any(entry.comes_with for entry in later):
        titles.append("Comes with")
        rows = [[*row, entry.comes_with or "-"] for row, entry in zip(rows, later, strict=True)]
    return render.table("Read and checked; comes later", titles, rows)


@command.command("check")
@click.argument("file", required=False)
@click.pass_context
def check(ctx: click.Context, *, file: str | None) -> None:
    """Tell whether FILE, or the file that would be used, is good."""
    loaded = _loaded(ctx, file)
    _tell((*loaded.notes, *_waiting(loaded)))
    if loaded.file is None:
        click.echo("no configuration file; the defaults count. Write one with: grid init")
        return
    used = sum(origin.source == "file" for origin in loaded.origins.values())
    others = [entry.key in _BOOTSTRAP for entry in loaded.later if entry.origin.source == "file"]
    by_ssh = f"{sum(others)} for grid bootstrap, " if any(others) else ""
    later = f"{len(others) - sum(others)} more for later versions"
    click.echo(f"{loaded.file} is good: {used} settings, {by_ssh}{later}")


def _loaded(ctx: click.Context, file: str | None) -> Loaded:
    root = ctx.find_root()
    flags = {
        key: (f"--{name.replace('_', '-')}", root.params[name])
        for name, key in _ROOT_FLAGS.items()
        if root.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    user_home = os.path.expanduser("~")  # noqa: PTH111  (the word of a shell, and it never fails)
    config_dir = locate(os.environ, user_home=user_home, data_dir="/").config
    return load_settings(os.environ, file=file, config_dir=config_dir, flags=flags)


def _report(loaded: Loaded) -> Report:
    return Report(
        file=loaded.file,
        settings=tuple(
            Shown(
                key=key,
                value=msgspec.to_builtins(at(loaded.settings, field)),
                origin=loaded.origins[key],
            )
            for key, field in USED.items()
        ),
        later=tuple(
            Shown(
                key=later.key,
                value=later.value,
                origin=later.origin,
                comes_with=later.comes_with,
            )
            for later in loaded.later
        ),
        notes=loaded.notes,
    )


def _waiting(loaded: Loaded) -> tuple[str, ...]:
    """A sentence for each part that keys of the file wait for."""
    keys: dict[str, list[str]] = {}
    for entry in loaded.later:
        if entry.comes_with:
            keys.setdefault(entry.comes_with, []).append(entry.key)
    return tuple(f"{what} come later: {', '.join(found)}" for what, found in keys.items())


def _words(value: Any, field: str = "") -> str:
    """A value as people write it."""
    if value is None or value in ("", (), [], {}) or (value == 0 and field.endswith("_ms_max")):
        return "-"
    if field.endswith(("_max_milli", "_high_milli", "_low_milli")):
        return percent(value)
    if field.endswith("_milli"):
        return milli.text(value)
    if field.endswith("_centi"):
        return f"{value // 100} °C"
    if field.endswith(("_ms", "_ms_max")):
        return duration.text(value)
    if "bytes" in field:
        return bytesize.text(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        click.echo(f"grid: {note}", err=True)
