"""Are old records refused, and used only by who is cut off?"""

import pytest

from distributed_grid.kernel.placement import Rules, place
from tests.builders import a_job, a_node


@pytest.mark.rows("S1-112")
@pytest.mark.parametrize(("age_ms", "taken"), [(0, True), (60_000, True), (60_001, False)])
def test_a_record_older_than_a_minute_is_not_eligible(age_ms, taken):
    assert (place(a_job(), [a_node(age_ms=age_ms)]).responsible is not None) is taken


@pytest.mark.rows("S1-112")
def test_the_refusal_says_how_old_it_is():
    (refusal,) = place(a_job(), [a_node(age_ms=90_000)]).refused

    assert [(r.what, r.wanted, r.has, r.kind) for r in refusal.reasons] == [
        ("age_ms", 60_000, 90_000, "stale")
    ]


@pytest.mark.rows("S1-112")
def test_the_limit_can_be_set():
    node = a_node(age_ms=90_000)

    assert place(a_job(), [node], Rules(age_ms_max=90_000)).responsible == node.id
    assert place(a_job(), [node], Rules(age_ms_max=89_999)).responsible is None


@pytest.mark.rows("S1-113")
def test_a_node_that_is_cut_off_decides_on_the_last_known_state_and_marks_it():
    old, fresh, just = a_node(1, age_ms=60_001), a_node(2), a_node(3, age_ms=60_000)

    decision = place(a_job(), [old, fresh, just], Rules(last_known=True))

    stale = {r.id: r.is_stale for r in decision.ranked}
    assert stale == {old.id: True, fresh.id: False, just.id: False}
    assert decision.refused == []
