"""A link's speed is seen from what is sent anyway."""

from distributed_grid.kernel.mesh.bandwidth import ENOUGH_BYTES, Bandwidth
from distributed_grid.model.node import BANDWIDTH_KBPS_MAX

A = "a" * 64


def test_a_large_message_tells_the_speed_without_the_round_trip():
    seen = Bandwidth()
    seen.sent(A, 125_000, 1_000)

    assert seen.taken(A, 10_000, 1_000 + 1_010_000) == 1_000  # A megabit in a second.


def test_a_small_message_tells_nothing_and_ends_what_was_measured():
    seen = Bandwidth()
    seen.sent(A, ENOUGH_BYTES, 0)
    seen.sent(A, ENOUGH_BYTES - 1, 0)

    assert seen.taken(A, None, 100) is None


def test_an_answer_faster_than_the_round_trip_is_bounded():
    seen = Bandwidth()
    seen.sent(A, 10**12, 0)

    assert seen.taken(A, 10_000, 10) == BANDWIDTH_KBPS_MAX


def test_a_link_that_is_gone_measures_nothing():
    seen = Bandwidth()
    seen.sent(A, ENOUGH_BYTES, 0)
    seen.forget(A)

    assert seen.taken(A, None, 1_000) is None
