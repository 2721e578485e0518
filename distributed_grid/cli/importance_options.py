"""The options of `run` and `run-shared` about importance, time and giving way.

Lives here: the options, once. Never here: what the words mean (`client.importance`).
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from distributed_grid.client.specification import Wishes

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--project", default="", metavar="NAME", help="Whose share it counts for."),
    click.option(
        "--preempt-signal", metavar="SIGNAL", help="Its warning before it gives way: USR1."
    ),
    click.option("--preempt-grace", metavar="SPAN", help="From the warning to its end; else 10s."),
    click.option("--on-preempt", metavar="CMD", help="Run when it is warned, to save its state."),
    click.option("--no-preempt", is_flag=True, help="Never stop it for other work."),
    click.option("--start-at", metavar="TIME", help="Not before: 22:00, +2h, 2026-12-24 18:00."),
    click.option("--deadline", metavar="TIME", help="Ended by then, one way or the other."),
    click.option("--booking", default="", metavar="NAME", help="Use what is kept for this name."),
)


def importance_options(function: Decorated) -> Decorated:
    """All of them, in this order."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def priority_option(*names: str) -> Callable[[Decorated], Decorated]:
    """`--priority`, under these names."""
    return click.option(
        *names,
        default="medium",
        show_default=True,
        metavar="WORD",
        help="urgent, high, medium or low; normal and critical are understood.",
    )


def importance_of(told: dict[str, Any]) -> Wishes:
    """What the options said."""
    return Wishes(
        priority=told["priority"],
        project=told["project"],
        preempt_signal=told["preempt_signal"],
        preempt_grace=told["preempt_grace"],
        on_preempt=told["on_preempt"],
        no_preempt=told["no_preempt"],
        start_at=told["start_at"],
        deadline=told["deadline"],
        booking=told["booking"],
    )
