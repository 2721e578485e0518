"""Whom to dial and when again."""

from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.mesh.dialling import ABREAST, YIELD_US, Backoff, Dialling

LOW, ME, HIGH = ("1" * 64), ("5" * 64), ("9" * 64)
BACKOFF = Backoff()


def most(limit):
    return limit - 1


def dialling(chance=most):
    return Dialling(me=ME, backoff=BACKOFF, chance=chance)


def test_the_lower_id_dials_and_the_higher_waits_a_second_for_it():
    mine = dialling()

    assert mine.due([LOW, HIGH], (), 0) == [HIGH]
    assert mine.due([LOW], (), YIELD_US - 1) == []
    assert mine.due([LOW], (), YIELD_US) == [LOW]


def test_nobody_is_dialled_twice_at_once_or_while_linked():
    mine = dialling()
    mine.due([HIGH], (), 0)

    assert mine.due([HIGH], (), 0) == []
    mine.up(HIGH)
    assert mine.due([HIGH], {HIGH}, 0) == []


def test_only_some_are_dialled_abreast():
    mine = dialling()
    peers = [f"{number + 600:064d}" for number in range(ABREAST + 3)]
    peers = ["9" + peer[1:] for peer in peers]

    assert len(mine.due(peers, (), 0)) == ABREAST


def test_each_failure_doubles_the_wait_up_to_a_minute():
    mine = dialling()
    waits, now_us = [], 0
    for _ in range(10):
        assert mine.due([HIGH], (), now_us) == [HIGH]
        mine.failed(HIGH, now_us)
        begin_us = now_us
        while not mine.due([HIGH], (), now_us):
            now_us += 250_000
        mine.under_way.clear()
        waits.append(now_us - begin_us)

    assert waits[:3] == [500_000, 1_000_000, 2_000_000]
    assert waits[-1] == BACKOFF.most_us


@given(failures=st.integers(1, 10_000), share=st.integers(0, 1_000))
def test_a_wait_is_at_least_half_of_its_step_and_never_over_the_cap(failures, share):
    wait_us = BACKOFF.wait_us(failures, lambda limit: (limit - 1) * share // 1_000)

    assert BACKOFF.first_us // 2 <= wait_us <= BACKOFF.most_us


def test_a_link_that_held_makes_the_next_failure_the_first():
    mine = dialling()
    for _ in range(6):
        mine.failed(HIGH, 0)
    mine.down(HIGH, up_us=BACKOFF.settled_us, now_us=0)

    assert mine.due([HIGH], (), BACKOFF.first_us) == [HIGH]


def test_a_link_that_broke_at_once_counts_as_a_failure():
    mine = dialling()
    mine.failed(HIGH, 0)
    mine.down(HIGH, up_us=1, now_us=0)

    assert mine.due([HIGH], (), BACKOFF.first_us) == []


def test_who_said_no_is_asked_once_a_minute():
    mine = dialling()
    mine.refused(HIGH, 0)

    assert mine.due([HIGH], (), BACKOFF.most_us - 1) == []
    assert mine.due([HIGH], (), BACKOFF.most_us) == [HIGH]


def test_news_about_a_peer_are_worth_a_try_at_once():
    mine = dialling()
    mine.refused(HIGH, 0)
    mine.soon(HIGH)

    assert mine.due([HIGH], (), 0) == [HIGH]


def test_who_is_forgotten_leaves_nothing_behind():
    mine = dialling()
    mine.due([HIGH], (), 0)
    mine.forget(HIGH)

    assert mine.under_way == set()
