"""The options of `run` and `run-shared` about where a job runs, how it is kept and what travels.

Lives here: the options, once. Never here: what the words mean (`placing_words`, `client.placing`).
Every `grid run` with an option comes through here: what only completion needs is loaded there.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from distributed_grid.model.bounds import GANG_MAX
from distributed_grid.model.job import COPIES_MAX, VOTERS_CHOICE

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from distributed_grid.cli.nodes import node_names

    return node_names(ctx, param, incomplete)


def _classes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from distributed_grid.model.node_class import CLASS_NAMES

    del ctx, param
    return [name for name in CLASS_NAMES if name.startswith(incomplete)]


def _localities(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from distributed_grid.client.placing import LOCALITIES

    del ctx, param
    return [name for name in LOCALITIES if name.startswith(incomplete)]


_WHERE: Final = (
    click.option(
        "--on-class",
        multiple=True,
        metavar="CLASS",
        shell_complete=_classes,
        help="Only on datacenter, workstation, laptop or edge.",
    ),
    click.option("--label", multiple=True, metavar="K=V", help="Only where this label is set."),
    click.option(
        "--avoid",
        multiple=True,
        metavar="WORD",
        help="Not there: NODE, class:laptop, K=V (a label) or job:NAME.",
    ),
    click.option("--policy", metavar="NAME", help="How nodes are ordered: BestFit, PowerAware, …"),
    click.option("--spread", is_flag=True, help="Over as many nodes as there are."),
    click.option("--binpack", is_flag=True, help="On as few nodes as will do."),
    click.option(
        "--locality",
        metavar="WORD",
        shell_complete=_localities,
        help="Near its files (data), or this machine: rack, zone, region.",
    ),
    click.option("--max-latency", metavar="SPAN", help="Only on nodes that are so near: 20ms."),
    click.option("--no-battery", is_flag=True, help="Never on a node that runs on battery."),
)
_NODE: Final = click.option(
    "--node",
    multiple=True,
    metavar="NODE",
    shell_complete=_nodes,
    help="On this node, or one of these.",
)
_KEPT: Final = (
    click.option(
        "--at-most-once",
        is_flag=True,
        help="Never two processes of it at a time, whichever machine fails.",
    ),
    click.option(
        "--voters",
        type=click.Choice([str(count) for count in VOTERS_CHOICE]),
        help="Machines that vote on an --at-most-once job: 3, or 5 to survive the loss of two.",
    ),
    click.option(
        "--copies",
        type=click.IntRange(1, COPIES_MAX),
        help="Refuse it if fewer machines keep its record.",
    ),
    click.option("--wait-safe", is_flag=True, help="Go on only once a second machine has it."),
    click.option(
        "--gang",
        type=click.IntRange(1, GANG_MAX),
        metavar="N",
        help="So many ranks, all at once or none: GRID_RANK tells which.",
    ),
    click.option(
        "--ship",
        multiple=True,
        metavar="PATH|none",
        help="These files travel, or none do; else its directory.",
    ),
    click.option("--ship-ignored", is_flag=True, help="Ignored files travel, too; no secrets."),
    click.option(
        "--output", multiple=True, metavar="GLOB", help="Only these of its files come back."
    ),
    click.option("--no-output", is_flag=True, help="None of its files come back."),
    click.option("--overwrite", is_flag=True, help="Also over newer files here."),
    click.option(
        "--python-env",
        metavar="FILE|auto",
        help="Build an environment from uv.lock, requirements.txt or pyproject.toml.",
    ),
)


def placing_options(function: Decorated) -> Decorated:
    """All of them, in this order."""
    for option in reversed((_NODE, *_WHERE, *_KEPT)):
        function = option(function)
    return function


def where_options(function: Decorated) -> Decorated:
    """Those for work that borrows: owners name it, and keep it, by words of their own."""
    for option in reversed(_WHERE):
        function = option(function)
    return function
