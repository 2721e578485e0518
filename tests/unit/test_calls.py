"""The queue of one map: who gets which call, and what a death means."""

import pytest

from distributed_grid.errors import Conflict, Overloaded
from distributed_grid.kernel import calls as calls_module
from distributed_grid.kernel.calls import BARREN_MAX, DEAD_KEPT, RESULT_BYTES, Calls
from distributed_grid.wire.maps import BATCH_BYTES, MapCall, MapFunction, MapOutcome


def some_calls(count: int, *, data: bytes = b"x", first: int = 0) -> tuple[MapCall, ...]:
    return tuple(MapCall(number, data) for number in range(first, first + count))


def a_queue(count: int = 0, *, retries: int = 1, chunk: int = 0) -> Calls:
    queue = Calls()
    queue.begin(MapFunction(number=1, data=b"f", retries=retries, chunk=chunk))
    queue.add(some_calls(count))
    return queue


def returned(*numbers: int, data: bytes = b"r") -> tuple[MapOutcome, ...]:
    return tuple(MapOutcome(number, "returned", data) for number in numbers)


def numbers(calls: tuple[MapCall, ...]) -> list[int]:
    return [call.number for call in calls]


def ended(queue: Calls, *, after: int = 0) -> list[tuple[int, str]]:
    queue.check()
    return [(outcome.number, outcome.how) for outcome in queue.outcomes(after=after)]


def test_a_worker_takes_half_of_an_even_share():
    queue = a_queue(12)

    assert numbers(queue.take("a", 100)) == [0, 1, 2, 3, 4, 5]
    assert numbers(queue.take("b", 100)) == [6, 7]  # 6 are left, two workers have asked.


def test_a_worker_takes_no_more_than_it_wants():
    assert numbers(a_queue(12).take("a", 2)) == [0, 1]


def test_a_chunk_fixes_how_many_calls_are_taken_at_once():
    assert numbers(a_queue(12, chunk=5).take("a", 1)) == [0, 1, 2, 3, 4]


def test_a_batch_is_limited_in_bytes_but_never_empty():
    queue = a_queue(chunk=3)
    queue.add(some_calls(3, data=b"x" * (BATCH_BYTES - 1)))

    assert numbers(queue.take("a", 3)) == [0]


def test_without_retries_a_call_is_never_beside_another():
    assert numbers(a_queue(12, retries=0, chunk=5).take("a", 100)) == [0]


def test_an_outcome_is_kept_until_the_client_has_it():
    queue = a_queue(2)
    queue.take("a", 2)
    queue.finish(returned(0))

    assert ended(queue) == [(0, "returned")]
    assert ended(queue) == [(0, "returned")]
    assert ended(queue, after=1) == []


def test_calls_that_are_sent_again_change_nothing():
    queue = a_queue(3)
    queue.take("a", 1)
    queue.finish(returned(0))

    queue.add(some_calls(3))

    assert queue.waiting == 2
    assert ended(queue) == [(0, "returned")]


def test_the_first_outcome_of_a_call_counts():
    queue = a_queue(1)
    queue.finish(returned(0))  # By a worker that had it before the agent restarted.
    queue.finish((MapOutcome(0, "raised", b""),))

    assert ended(queue) == [(0, "returned")]
    assert queue.take("a", 1) == ()


def test_what_a_lost_answer_carried_is_handed_out_again():
    queue = a_queue(4)
    first = queue.take("a", 2)

    assert queue.take("a", 2) == first
    assert queue.out == 2


def test_calls_that_were_not_begun_can_be_given_back():
    queue = a_queue(8)
    queue.take("a", 4)
    queue.give_back("a", (2, 3, 99))
    queue.give_back("nobody", (0,))

    assert numbers(queue.take("b", 2)) == [2, 3]
    queue.check()


def test_a_call_that_kills_its_worker_fails_after_its_retries_and_others_do_not():
    queue = a_queue(8)
    batch = numbers(queue.take("a", 100))
    assert batch == [0, 1, 2, 3]
    queue.died("a", "signalled 139")

    for worker, number in zip("bcde", batch, strict=True):
        assert numbers(queue.take(worker, 100)) == [number], "a suspect is handed out alone"
        queue.check()
        if number == 2:
            queue.died(worker, "signalled 139")
        else:
            queue.finish(returned(number))

    assert ended(queue) == [(0, "returned"), (1, "returned"), (2, "died"), (3, "returned")]
    assert queue.outcomes(after=2)[0].data == b"signalled 139"


def test_a_suspect_ends_a_batch():
    queue = a_queue(chunk=4)
    queue.add(some_calls(1))
    queue.take("a", 1)
    queue.add(some_calls(3, first=1))
    queue.take("b", 3)
    queue.died("a", "x")
    queue.give_back("b", (1, 2))

    assert numbers(queue.take("c", 4)) == [1, 2]  # 0 is a suspect, and comes next.
    assert numbers(queue.take("d", 4)) == [0]


def test_a_worker_that_leaves_in_peace_blames_nobody():
    queue = a_queue(2)
    queue.take("a", 1)
    queue.left("a")
    queue.left("never seen")

    assert queue.waiting == 2
    assert numbers(queue.take("b", 100)) == [0]
    assert ended(queue) == []


def test_a_dead_worker_gets_nothing():
    queue = a_queue(2)
    queue.take("a", 1)
    queue.died("a", "x")

    assert queue.take("a", 1) == ()


def test_only_the_latest_dead_are_remembered():
    queue = a_queue(0)
    for number in range(DEAD_KEPT + 1):
        queue.take(f"w{number}", 1)
        queue.died(f"w{number}", "x")
    queue.add(some_calls(1))

    assert queue.take(f"w{DEAD_KEPT}", 1) == ()
    assert numbers(queue.take("w0", 1)) == [0]  # So long ago that no request of it is on its way.


def test_workers_that_never_ask_fail_the_map():
    queue = a_queue(3)
    for number in range(BARREN_MAX):
        assert not queue.failure
        queue.died(f"w{number}", "exited 1")

    assert "exited 1" in queue.failure
    assert queue.take("late", 1) == ()


def test_one_worker_that_asks_shows_that_they_start():
    queue = a_queue(0)
    for number in range(BARREN_MAX - 1):
        queue.died(f"w{number}", "exited 1")
    queue.take("good", 1)
    queue.died("bad", "exited 1")

    assert not queue.failure


def test_with_many_unread_results_calls_go_out_one_by_one():
    queue = a_queue(10, chunk=2)
    queue.client_bytes = RESULT_BYTES

    assert numbers(queue.take("a", 9)) == [0]
    assert queue.take("b", 9) == ()

    queue.client_bytes = 0
    assert numbers(queue.take("b", 9)) == [1, 2]


def test_an_answer_is_limited_in_bytes_but_never_empty():
    queue = a_queue(3, chunk=3)
    queue.take("a", 3)
    queue.finish(returned(0, 1, 2, data=b"r" * (calls_module.NEWS_BYTES // 2 + 1)))

    assert ended(queue) == [(0, "returned")]
    assert ended(queue, after=1) == [(1, "returned")]


def test_a_map_is_bounded_in_calls_and_bytes(monkeypatch):
    monkeypatch.setattr(calls_module, "CALLS_MAX", 3)
    monkeypatch.setattr(calls_module, "CALL_BYTES_MAX", 10)
    queue = a_queue(2)

    with pytest.raises(Overloaded, match="calls"):
        queue.add(some_calls(2, first=2))
    with pytest.raises(Overloaded, match="bytes"):
        queue.add(some_calls(1, first=2, data=b"x" * 9))
    queue.check()


def test_a_second_function_waits_for_the_calls_of_the_first():
    queue = a_queue(1)
    queue.begin(MapFunction(number=1, data=b"f"))

    with pytest.raises(Conflict):
        queue.begin(MapFunction(number=2, data=b"g"))

    queue.take("a", 1)
    queue.finish(returned(0))
    queue.begin(MapFunction(number=2, data=b"g"))
    assert queue.function is not None
    assert queue.function.number == 2


def test_calls_of_a_worker_that_was_lost_with_its_machine_are_run_again_without_blame():
    queue = a_queue(4)
    queue.take("far", 2)
    queue.lost("far", "barn is dead")

    queue.check()
    assert numbers(queue.take("here", 100)) == [0, 1]  # Beside each other: nobody is suspect.
    assert queue.take("far", 1) == ()  # It may come back: its work is with another.
    assert ended(queue) == []


def test_a_call_that_must_not_run_twice_is_lost_with_its_machine():
    queue = a_queue(2, retries=0)
    queue.take("far", 1)
    queue.lost("far", "barn is dead")
    queue.lost("never asked", "barn is dead")

    assert ended(queue) == [(0, "died")]
    assert queue.failure == ""  # Who never asked says nothing about those who will.
