"""`grid cache`: the files that came with jobs, kept for the next one.

Lives here: what is shown. Never here: what is kept and what makes room (`edges.artifacts`).
"""

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import cache_calls
from distributed_grid.model import bytesize
from distributed_grid.wire.cache import CacheStatus


@click.group("cache", invoke_without_command=True)
@json_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, data_dir: str | None) -> None:
    """The files that travelled with jobs: how much is kept, and how often that helped."""
    if ctx.invoked_subcommand is None:
        _show(data_dir, as_json=as_json)


@command.command("show")
@json_option
@data_dir_option
def show(*, as_json: bool, data_dir: str | None) -> None:
    """Show how much is kept here, for whom, and how often it was there when it was needed."""
    _show(data_dir, as_json=as_json)


@command.command("clear")
@json_option
@data_dir_option
def clear(*, as_json: bool, data_dir: str | None) -> None:
    """Remove what no job needs that runs or waits; it travels again when it is needed."""
    with caller(data_dir) as agent:
        cleared = agent.run(cache_calls.clear_cache())
    if as_json:
        print_json(cleared)
        return
    left = (
        f", {bytesize.text(cleared.bytes_left)} are needed and stay" if cleared.bytes_left else ""
    )
    pieces = f"{cleared.chunks} piece{'' if cleared.chunks == 1 else 's'}"
    click.echo(f"removed {bytesize.text(cleared.bytes_removed)} in {pieces}{left}")


def _show(data_dir: str | None, *, as_json: bool) -> None:
    with caller(data_dir) as agent:
        status = agent.run(cache_calls.cache())
    if as_json:
        print_json(status)
        return
    used, most = bytesize.text(status.bytes_used), bytesize.text(status.bytes_max)
    text.pairs(
        [
            ("kept", f"{used} of {most}"),
            ("needed", bytesize.text(status.bytes_pinned) if status.bytes_pinned else ""),
            ("pieces", f"{status.chunks}, of {status.manifests} directories"),
            ("hits", _hits(status)),
            ("made room", str(status.evicted) if status.evicted else ""),
            ("damaged", str(status.damaged) if status.damaged else ""),
        ]
    )


def _hits(status: CacheStatus) -> str:
    asked = status.hits + status.misses
    if not asked:
        return "nothing was asked for yet"
    percent = status.hits * 100 // asked
    return f"{status.hits} of {asked} ({percent} %), {bytesize.text(status.bytes_saved)} not sent"
