"""`grid completion bash|zsh|fish`: the script that teaches a shell our words."""

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def command(shell: str) -> None:
    r"""Print the completion script of a shell.

    \b
    bash:  eval "$(grid completion bash)"    in ~/.bashrc
    zsh:   eval "$(grid completion zsh)"     in ~/.zshrc
    fish:  grid completion fish | source     in ~/.config/fish/config.fish
    """
    from distributed_grid.cli.commands import grid

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(grid, {}, "grid", "_GRID_COMPLETE")
    # Not the class's own `source`: for bash that starts a bash to ask for its version.
    click.echo(ShellComplete.source(script))
