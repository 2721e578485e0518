"""What was told about where a job runs, as wishes: only what was told at all.

Lives here: from options to wishes. Never here: the options (`placing_options`), what a wish means
(`client.placing`), which is loaded only if somebody told something.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from distributed_grid.client.specification import Wishes

NAMES: Final = ("node", "on_class", "label", "avoid", "policy", "spread", "binpack", "locality",
                "max_latency", "no_battery", "at_most_once", "voters", "copies", "gang", "ship",
                "ship_ignored", "output", "no_output", "overwrite", "python_env")  # fmt: skip


def told_of(told: dict[str, Any]) -> dict[str, Any]:
    """Take the options about this out of all that was told; those left out are left out here."""
    found = {name: told.pop(name) for name in NAMES if name in told}
    return {name: value for name, value in found.items() if value not in (None, (), False)}


def placing_wishes(told: Mapping[str, Any]) -> Wishes:
    """What these options mean."""
    wishes: Any = {
        name: told[name]
        for name in ("node", "on_class", "avoid", "policy", "locality", "max_latency", "no_battery",
                     "at_most_once", "copies", "gang", "ship", "ship_ignored", "overwrite",
                     "python_env")
        if name in told
    }  # fmt: skip
    ways = [name for name in ("policy", "spread", "binpack") if name in told]
    if len(ways) > 1:
        raise click.UsageError(f"--{ways[0]} and --{ways[1]} are two orders of nodes: give one")
    if "spread" in told:
        wishes["policy"] = "Spread"
    if "binpack" in told:
        wishes["policy"] = "BestFit"
    if "voters" in told:
        wishes["voters"] = int(told["voters"])
    if "label" in told:
        wishes["labels"] = _labels(told["label"])
    if "output" in told and "no_output" in told:
        raise click.UsageError("--output and --no-output contradict each other: give one")
    if "no_output" in told:
        wishes["outputs"] = None
    if "output" in told:
        wishes["outputs"] = told["output"]
    meant: Wishes = wishes
    return meant


def _labels(words: Sequence[str]) -> dict[str, str]:
    """All of them must hold, and a node has one value for each."""
    from distributed_grid.client.placing import label_pair

    labels: dict[str, str] = {}
    for key, value in map(label_pair, words):
        if labels.setdefault(key, value) != value:
            raise click.UsageError(
                f"--label {key}={labels[key]} and --label {key}={value} hold nowhere: give one"
            )
    return labels
