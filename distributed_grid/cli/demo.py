"""`grid demo`: Grid at work, in some seconds, with nothing to set up and nothing left behind.

Lives here: the tour. The first part runs real jobs under an agent of its own (`demo_jobs`), the
second under five agents of which one dies (`demo_mesh`), the third places made-up jobs on a made-up
fleet (`demo_fleet`).
"""

import click
from rich.console import Console

from distributed_grid.cli import probe, render


@click.command("demo")
@click.option(
    "--nodes", "node_count", type=click.IntRange(1, 100_000), default=1_000, show_default=True
)
@click.option("--jobs", "job_count", type=click.IntRange(1, 10_000), default=400, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another fleet.")
@click.option(
    "--only", type=click.Choice(["machine", "jobs", "mesh", "fleet"]), help="One part of it."
)
@click.option("--inside", is_flag=True, hidden=True, help="Already in a network of its own.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    node_count: int,
    job_count: int,
    seed: int,
    only: str | None,
    inside: bool,
) -> None:
    """Show Grid at work on this machine."""
    console = render.out()
    if only in (None, "machine"):
        render.rule(console, "this machine · grid probe")
        ctx.invoke(probe.command)
    if only in (None, "jobs"):
        from distributed_grid.cli.demo_jobs import show_jobs

        render.rule(console, "real jobs on this machine · grid up, grid run")
        show_jobs(console)
    if only in (None, "mesh"):
        _show_mesh(console, is_inside=inside)
    if only in (None, "fleet"):
        from distributed_grid.cli.demo_fleet import show_fleet

        show_fleet(console, node_count=node_count, job_count=job_count, seed=seed)


def _show_mesh(console: Console, *, is_inside: bool) -> None:
    from distributed_grid.cli.demo_machines import own_network, raise_loopback

    if is_inside:
        from distributed_grid.cli.demo_mesh import show_mesh

        raise_loopback()
        show_mesh(console)
        return
    render.rule(console, "five machines, one dies · grid join, grid run")
    code = own_network(["demo", "--only", "mesh", "--inside"])
    if code is None:
        console.print("left out: a network of its own needs Linux, unshare and its permission")
    elif code:
        raise SystemExit(code)
