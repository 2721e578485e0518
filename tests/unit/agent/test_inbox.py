"""Words that wait for their step: in turns, on the account of who said them."""

import asyncio

from distributed_grid.agent.inbox import STEP_BYTES_MAX, STEP_WORDS_MAX, WORD_BYTES, Inbox
from distributed_grid.kernel.accounts import Allowance
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Taken

EVE, ANN = NodeId("e" * 64), NodeId("a" * 64)


def word(number: int) -> Taken:
    return Taken(job=JobId(f"{number:032x}"), lease="lease")


def numbers(words) -> list[tuple[NodeId, int]]:
    return [(peer, int(one.job, 16)) for peer, one in words]


async def test_nobody_waits_behind_who_says_much_and_the_order_of_each_stays():
    inbox = Inbox(lambda _: "member")
    for number in range(1_000):
        inbox.put(EVE, word(number), 100)
    inbox.put(ANN, word(1), 100)
    inbox.put(ANN, word(2), 100)
    said = numbers(await inbox.some())

    assert said[:4] == [(EVE, 0), (ANN, 1), (EVE, 1), (ANN, 2)]
    assert len(said) == STEP_WORDS_MAX
    assert numbers(await inbox.some())[0] == (EVE, STEP_WORDS_MAX - 2)


async def test_one_step_hears_little_that_is_large():
    inbox = Inbox(lambda _: "member")
    for number in range(3):
        inbox.put(EVE, word(number), STEP_BYTES_MAX)

    assert numbers(await inbox.some()) == [(EVE, 0)]


async def test_what_has_no_room_is_dropped_and_counted_and_others_are_heard():
    inbox = Inbox(lambda _: "guest")
    most = 2 * WORD_BYTES
    inbox.accounts.limits = Allowance(most, most, most, 2 * most, most)
    for number in range(5):
        inbox.put(EVE, word(number), 0)
    inbox.put(ANN, word(7), 0)

    assert inbox.dropped == 3
    assert numbers(await inbox.some()) == [(EVE, 0), (ANN, 7), (EVE, 1)]
    inbox.accounts.check([])


async def test_who_waits_for_words_gets_the_next_one():
    inbox = Inbox(lambda _: "guest")
    waiting = asyncio.create_task(inbox.some())
    await asyncio.sleep(0)
    inbox.put(ANN, word(1), 0)

    assert numbers(await waiting) == [(ANN, 1)]
