"""`grid version`: which Grid, on which Python, speaking which protocol."""

import platform

import click
import msgspec

from distributed_grid import __version__


class Version(msgspec.Struct, frozen=True):
    """What `grid version --json` prints."""

    grid: str
    python: str
    platform: str


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, as_json: bool) -> None:
    """Print the version of Grid and of Python."""
    version = Version(
        grid=__version__, python=platform.python_version(), platform=platform.platform(terse=True)
    )
    if as_json:
        click.echo(msgspec.json.encode(version))
    else:
        click.echo(f"grid {version.grid} on Python {version.python}, {version.platform}")
