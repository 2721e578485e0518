"""`grid jobs`: what there is, newest first.

Lives here: filters, the table, watching. Never here: one job in full (`job`).
"""

import sys
from typing import Any, Final, NoReturn

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.nodes import node_names
from distributed_grid.client import across_calls, calls, sharing_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.resting import rest
from distributed_grid.model import duration, milli
from distributed_grid.wire.api import JOBS_MAX, Jobs, JobView
from distributed_grid.wire.sharing import Queue, QueueEntry

STATES: Final = ("waiting", "running", "succeeded", "failed", "cancelled", "lost", "skipped")
REFRESH_S: Final = 1.0
COMMAND_CHARACTERS: Final = 60  # On a terminal, beside the other columns.
COMMAND_CHARACTERS_MAX: Final = 1_000  # Into a pipe: a script in an argument is no table.
_COLOURS: Final = {"running": "cyan", "succeeded": "green", "failed": "red", "lost": "red",
                   "cancelled": "yellow", "skipped": "yellow"}  # fmt: skip


@click.command("jobs")
@click.option("--state", type=click.Choice(STATES), help="Only these.")
@click.option("--name", metavar="NAME", help="Only of this name.")
@click.option("--user", metavar="USER", help="Only of this user.")
@click.option(
    "--limit", type=click.IntRange(1, JOBS_MAX), default=50, show_default=True, help="At most."
)
@click.option("--watch", is_flag=True, help="Show it again each second, until Ctrl-C.")
@click.option("--queue", is_flag=True, help="Those that wait here, in the order of service.")
@click.option("--node", metavar="NODE", shell_complete=node_names, help="With --queue: there.")
@json_option
@data_dir_option
def command(
    *,
    watch: bool,
    queue: bool,
    node: str | None,
    as_json: bool,
    data_dir: str | None,
    **filters: Any,
) -> None:
    """List the jobs of all nodes, newest first."""
    if queue:
        _refuse_filters(watch=watch, **filters)
        limit = filters["limit"]
        asked = (
            across_calls.queue_of(node, limit=limit) if node else sharing_calls.queue(limit=limit)
        )
        with caller(data_dir) as agent:
            _show_queue(agent.run(asked), as_json=as_json)
        return
    if node:
        raise click.UsageError("--node goes with --queue: without it, all nodes are asked")
    wanted: dict[str, Any] = {key: value or "" for key, value in filters.items()}
    with caller(data_dir) as agent:
        if watch:
            _watch(agent, wanted, as_json=as_json)
        page = agent.run(calls.jobs(**wanted))
        _show(page, as_json=as_json)


def _watch(agent: Caller, wanted: dict[str, Any], *, as_json: bool) -> NoReturn:
    """For ever: again each second on a terminal, into a pipe only when something changed."""
    if not as_json and sys.stdout.isatty():
        from rich.live import Live

        from distributed_grid.cli import render

        with Live(console=render.out(), screen=False, auto_refresh=False) as live:
            while True:
                live.update(_table(agent.run(calls.jobs(**wanted))), refresh=True)
                rest(REFRESH_S)
    before = None
    while True:
        page = agent.run(calls.jobs(**wanted))
        if page != before:
            _show(page, as_json=as_json)
        before = page
        rest(REFRESH_S)


def _refuse_filters(**told: Any) -> None:
    for name in ("watch", "state", "name", "user"):
        if told[name]:
            raise click.UsageError(f"--queue shows all that wait: leave out --{name}")


def _show_queue(queue: Queue, *, as_json: bool) -> None:
    if as_json:
        print_json(queue)
        return
    if not queue.entries:
        click.echo("grid: nothing waits", err=True)
        return
    from distributed_grid.cli import render

    columns = ["##", "id", "name", "priority", "user", "project", "share#", "waited#", "waits for"]
    rows = [_queue_row(entry) for entry in queue.entries]
    cut, spare = ("waits for", "name", "priority"), ("project", "share#", "user", "waited#")
    table = render.table("", columns, rows, cut=cut, spare=spare)
    render.out().print(table)
    if queue.total > len(queue.entries):
        click.echo(f"grid: {queue.total} wait; see --limit", err=True)


def _queue_row(entry: QueueEntry) -> list[str]:
    lifted = f" → {entry.lifted}" if entry.lifted != entry.priority else ""
    return [
        str(entry.position),
        entry.id[:12],
        entry.name,
        f"{entry.priority}{lifted}{', borrowed' if entry.is_shared else ''}",
        entry.user,
        entry.project,
        f"{entry.share_milli / 10:g} %",
        duration.text(entry.waited_ms // 1_000 * 1_000),
        entry.waits or "its turn",
    ]


def _show(page: Jobs, *, as_json: bool) -> None:
    if page.damaged:
        names = ", ".join(text.printable(job) for job in page.damaged)
        click.echo(f"grid: damaged records are left out: {names}; try: grid doctor", err=True)
    if as_json:
        print_json(page.jobs)
        return
    if page.jobs:
        from distributed_grid.cli import render

        render.out().print(_table(page))
    else:
        click.echo("grid: no jobs; start one with: grid run CMD", err=True)
    if page.more:
        click.echo("grid: there are more; see --limit and the filters", err=True)
    if page.missing:
        names = ", ".join(map(text.printable, page.missing))
        click.echo(
            f"grid: no answer from {names}: jobs that nobody else knows are left out", err=True
        )


def _table(page: Jobs) -> Any:
    from distributed_grid.cli import render

    columns = ["id", "name", "state", "exit#", "cores#", "submitted", "ran#", "node", "command"]
    rows = [_row(job) for job in page.jobs]
    is_alone = not any(job.home for job in page.jobs)
    if is_alone and len({job.node for job in page.jobs if job.node}) <= 1:  # Nothing to tell.
        at = columns.index("node")
        columns, rows = [*columns[:at], *columns[at + 1 :]], [[*r[:at], *r[at + 1 :]] for r in rows]
    cut, spare = ("command", "name", "state", "node"), ("cores#", "submitted", "exit#", "ran#")
    return render.table("", columns, rows, cut=cut, spare=spare)


def _row(job: JobView) -> list[Any]:
    from rich.text import Text

    colour = _COLOURS.get(job.state, "")
    state = text.counted(job) if job.array else _moving(job) or text.state(job)
    return [
        job.id[:12],
        job.name,
        Text(state, colour),
        "" if job.exit_code is None else str(job.exit_code),
        milli.text(job.cpu_milli),
        text.moment(job.submitted_ms),
        text.ran_for(job),
        text.printable(job.node or ""),
        _command(job),
    ]


def _command(job: JobView) -> str:
    """In one line, whatever is in it; on a terminal a short one."""
    most = COMMAND_CHARACTERS if sys.stdout.isatty() else COMMAND_CHARACTERS_MAX
    words = " ".join(job.argv)[: most + 1]
    plain = "".join(letter if letter.isprintable() else " " for letter in words)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _moving(job: JobView) -> str:
    """What is done with its files, in a word or two: `receiving 17 %`."""
    first = job.transits[0] if job.transits else None
    if first is None or first.doing == "copying":  # That keeps nobody from running.
        return ""
    percent = f" {first.bytes_done * 100 // first.bytes_total} %" if first.bytes_total else ""
    return f"{first.doing}{percent}"
