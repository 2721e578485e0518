"""`grid doctor`: what is missing on this machine, and how to get it.

Lives here: how findings are shown. Never here: the examinations (`examination`).
"""

import click

from distributed_grid.cli.agent import data_dir_option, json_option, print_json
from distributed_grid.client.door import home_of


@click.command("doctor")
@json_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, data_dir: str | None) -> None:
    """Examine this machine; exits with 1 if something is missing that Grid cannot do without."""
    from distributed_grid.cli.examination import examine

    findings = examine(home_of(data_dir))
    if as_json:
        print_json(findings)
    else:
        colours = {"ok": "green", "warn": "yellow", "missing": "red"}
        for finding in findings:
            mark = click.style(finding.state.ljust(8), fg=colours[finding.state])
            click.echo(f"{mark}{finding.what.ljust(18)}{finding.detail}")
            if finding.remedy:
                click.echo(f"{' ' * 26}{finding.remedy}")
    ctx.exit(
        1 if any(finding.is_needed and finding.state == "missing" for finding in findings) else 0
    )
