import pytest

from distributed_grid.client.patience import KEPT_S, RESTART_S, Patience


@pytest.mark.parametrize(("has_keeper", "most_s"), [(False, RESTART_S), (True, KEPT_S)])
def test_tries_that_fail_in_a_row_end(has_keeper, most_s):
    patience = Patience()
    failed_s = [number * 0.5 for number in range(40)]
    over = []
    for now_s in failed_s:
        patience.tries(now_s)
        over.append(patience.is_over(now_s, has_keeper=has_keeper))

    assert over == [now_s >= most_s for now_s in failed_s]


@pytest.mark.parametrize("is_silent", [True, False])
def test_an_agent_that_lived_in_between_is_a_new_one(is_silent):
    patience = Patience()
    assert not patience.is_over(0, has_keeper=False)
    patience.tries(1)
    if not is_silent:
        patience.begins_anew()
    now_s = 1 + RESTART_S + (0.5 if is_silent else 0)

    assert not patience.is_over(now_s, has_keeper=False)
    assert patience.is_over(now_s + RESTART_S, has_keeper=False)
