"""Of what several nodes say of one job, or of one name, which counts."""

import pytest

from distributed_grid.agent.finding import Known, chosen, merged
from distributed_grid.errors import Ambiguous
from tests.agent_stand_in import a_view


def known(name: str, node: str, **fields) -> Known:
    return Known(node, a_view(name, **{"home": node, **fields}))


def test_the_view_of_the_home_wins_then_a_holders_then_a_guests():
    home = known("train", "a", state="running")
    holder = known("train", "b", home="a", state="waiting")
    guest = known("train", "c", id="9" * 32, guest_of=home.view.id, home="a")

    for views in ([home, holder, guest], [guest, holder, home], [holder, guest, home]):
        assert chosen("train", views) == home
    assert chosen("train", [guest, holder]) == holder
    assert chosen("train", [guest]) == guest
    assert chosen("train", []) is None
    assert merged([guest, holder, home]) == [home.view]


def test_of_several_with_one_name_the_unfinished_one_is_meant_else_the_newest():
    old = known("train", "a", id="a" * 64, submitted_ms=1)
    new = known("train", "b", id="b" * 64, submitted_ms=2)
    live = known("train", "c", id="c" * 64, submitted_ms=0, state="running")

    assert chosen("train", [new, old]) == new
    assert chosen("train", [new, old, live]) == live
    with pytest.raises(Ambiguous):
        chosen("train", [live, known("train", "a", id="d" * 64, state="waiting")])
    with pytest.raises(Ambiguous):  # By the beginning of an id there is no better one.
        chosen("id:abcd", [new, old])
    assert merged([old, live, new]) == [new.view, old.view, live.view]


# --- Copies and guests ----------------------------------------------------------------------------
