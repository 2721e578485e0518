"""`grid explain ID`: why a job is where it is, and what would help."""

import click
import msgspec

from distributed_grid.cli import hints, text
from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
    print_json,
)
from distributed_grid.client import calls
from distributed_grid.wire.api import Explanation


@click.command("explain")
@job_argument()
@json_option
@data_dir_option
def command(*, word: str, as_json: bool, data_dir: str | None) -> None:
    """Say why a job waits, or how it ended, and what would help."""
    with caller(data_dir) as agent:
        explanation = agent.run(calls.explain(word))
        if explanation.state == "failed":
            hint = hints.missing(agent, agent.run(calls.job(word)))
            told = (*explanation.remedies, hint) if hint else explanation.remedies
            explanation = msgspec.structs.replace(explanation, remedies=told)
    if as_json:
        print_json(explanation)
    else:
        _show(explanation)


def _show(explanation: Explanation) -> None:
    click.echo(f"{explanation.state}: {explanation.summary}")
    if explanation.position is not None:
        click.echo(f"  place in the queue: {explanation.position}")
        click.echo(f"  priority: {_importance(explanation)}")
    if explanation.start_ms:
        click.echo(f"  not before: {text.moment(explanation.start_ms)}")
    for what, wanted, free in explanation.shortfall:
        has = f"{text.amount(what, free)} free"
        click.echo(f"  {text.resource(what)}: wants {text.amount(what, wanted)}, {has}")
    if explanation.waits_for:
        click.echo(f"  waits for: {', '.join(explanation.waits_for)}")
    for remedy in explanation.remedies:
        click.echo(f"  what would help: {remedy}")


def _importance(explanation: Explanation) -> str:
    """What decides its place: `medium (counts as high), ada holds 25 % of the machine`."""
    lifted = explanation.lifted
    words = explanation.priority
    if lifted and lifted != explanation.priority:
        words += f" (counts as {lifted} by now)"
    if explanation.is_shared:
        words += ", borrowed, after the owner's work"
    if explanation.share_milli is not None:
        whose = explanation.project or explanation.user or "its user"
        words += f"; {whose} holds {explanation.share_milli / 10:g} % of the machine"
    return words
