"""Who types what is no command is told the one that was meant."""

import pytest
from click.testing import CliRunner

from distributed_grid.cli import commands


@pytest.mark.parametrize(
    ("word", "meant"),
    [("stauts", "status"), ("ps", "jobs"), ("log", "logs"), ("kill", "cancel"), ("jion", "join")],
)
def test_a_mistyped_command_is_told_the_one_that_was_meant(word, meant):
    done = CliRunner().invoke(commands.grid, [word, "-f", "x"])

    assert done.exit_code == 2
    assert f"No such command '{word}'. Did you mean '{meant}'?" in done.output


def test_a_word_that_is_like_no_command_means_none():
    done = CliRunner().invoke(commands.grid, ["xyzzy"])

    assert done.exit_code == 2
    assert "No such command 'xyzzy'." in done.output
    assert "Did you mean" not in done.output


def test_what_other_programs_call_a_command_is_none_of_ours_and_means_one():
    assert set(commands.MEANT).isdisjoint(commands.COMMANDS)
    assert set(commands.MEANT.values()) <= set(commands.COMMANDS)
