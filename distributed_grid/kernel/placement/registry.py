"""Policies and filters by name.

Lives here: our names, their aliases, and room for people's own. Never here: finding packages
that bring some (`config.plugins`).
Invariant: a name means one policy; our own names cannot be taken.
"""

from collections.abc import Mapping
from typing import Any

from distributed_grid.errors import BrokenPlugin, UnknownName
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.kernel.placement.rules import Policy

_OURS = {policy.name: policy for policy in POLICIES}
_ALIASES = {"binpack": "BestFit", "binpacking": "BestFit", "pack": "BestFit"}


def policy_named(name: str, own: Mapping[str, Any] | None = None) -> Policy:
    """The policy of this name: `BestFit`, `best-fit`, `binpack`, or one of people's own."""
    own = own or {}
    for key in own:
        if _plain(key) == _plain(name):
            return own_policy(key, own[key])  # Only this one is loaded: others may be broken.
    wanted = _plain(_ALIASES.get(_plain(name), name))
    for known, policy in _OURS.items():
        if _plain(known) == wanted:
            return policy
    raise UnknownName("policy", name, known=[*_OURS, *own])


def own_policy(name: str, parts: Any) -> Policy:
    """Somebody's own policy: a function of job and node that gives an int, or a dict of them."""
    if _plain(name) in {_plain(ours) for ours in (*_OURS, *_ALIASES)}:
        raise BrokenPlugin("policy", name, why="that name is one of Grid's own")
    if not callable(parts):
        raise BrokenPlugin("policy", name, why="it cannot be called with a job and a node")
    return Policy(name=name, parts=parts, on_columns=False)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
