"""Questions between two nodes: short and long answers, broken links, slow readers, junk, floods."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.agent import asking, questions
from distributed_grid.agent.questions import ANSWER_BYTES, Asker, Piece
from distributed_grid.errors import GridError, MeshUnreachable, NotFound, NotPermitted, Overloaded
from distributed_grid.kernel.accounts import LIMITS, Allowance
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.api import Problem
from distributed_grid.wire.problems import error_of
from distributed_grid.wire.questions import (
    ASKED,
    PART_BYTES_MAX,
    WINDOW,
    Answer,
    AnswerPart,
    More,
    NoMore,
    Question,
    QuestionMessage,
)
from tests.questions_lab import Pair, Parts, echo, settled


def refusal(told) -> GridError:
    assert told.status != 200
    return error_of(msgspec.json.decode(told.body, type=Problem))


async def whole(stream) -> bytes:
    return b"".join([part async for part in stream])


async def test_a_short_answer_is_one_message_each_way_and_names_the_user_with_its_node():
    pair = Pair()
    told = await pair.ask(job="train")

    assert (told.status, told.body) == (200, b"ada@desk: train")
    assert pair.kinds() == ["Question", "Answer"]
    assert (pair.answers.answers, len(pair.asks.asking)) == (0, 0)


@pytest.mark.parametrize(
    "size", [0, 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 10 * PART_BYTES_MAX + 7]
)
async def test_a_long_answer_comes_in_parts_and_is_put_together(size):
    body = bytes(index % 251 for index in range(size))
    pair = Pair(Parts([body[: size // 3], body[size // 3 :]]))
    told = await pair.ask()

    assert told.body == body
    for _, _, message in pair.lanes.said:
        assert len(getattr(message, "body", b"")) <= PART_BYTES_MAX


async def test_what_streams_is_heard_as_it_is_said():
    more = asyncio.Event()
    pair = Pair(Parts([b"first"], then=more.wait))
    stream = pair.stream()

    assert await anext(stream) == b"first"
    more.set()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_who_does_not_read_is_not_written_to():
    parts = Parts([b"x"] * 100)
    pair = Pair(parts)
    stream = pair.stream()
    assert await anext(stream) == b"x"
    await settled()

    # The window, one that was read, and one that waits for room.
    assert parts.made == WINDOW + 2
    assert len([part async for part in stream]) == 99
    assert parts.made == 100


async def test_nothing_is_said_while_the_lane_is_full():
    parts = Parts([b"x"])
    pair = Pair(parts)
    pair.lanes.is_full.clear()
    asked = asyncio.create_task(pair.ask())
    await settled()

    assert pair.kinds() == ["Question"]
    pair.lanes.is_full.set()
    assert (await asked).body == b"x"


async def test_who_stops_reading_ends_the_work_for_it():
    parts = Parts([b"x"] * 100)
    pair = Pair(parts)
    stream = pair.stream()
    await anext(stream)
    await stream.aclose()
    await asyncio.wait_for(parts.is_closed.wait(), 5)
    await settled()

    assert pair.kinds()[-1] == "NoMore"
    assert (pair.answers.answers, len(pair.asks.asking)) == (0, 0)
    assert pair.broke == []


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
async def test_a_link_that_breaks_ends_its_questions_at_both_ends(is_stream):
    never = asyncio.Event()
    parts = Parts([], then=never.wait)
    pair = Pair(parts)
    asked = asyncio.ensure_future(anext(pair.stream()) if is_stream else pair.ask())
    await settled()
    assert pair.answers.answers == 1
    pair.lanes.lose(pair.here, pair.there, "the cable is out")

    with pytest.raises(MeshUnreachable, match="the cable is out"):
        await asked
    await asyncio.wait_for(parts.is_closed.wait(), 5)
    assert (pair.answers.answers, len(pair.asks.asking)) == (0, 0)


async def test_what_was_heard_before_the_link_broke_is_given_first():
    pair = Pair(Parts([b"one", b"two"], then=asyncio.Event().wait))
    stream = pair.stream()
    assert await anext(stream) == b"one"
    await settled()
    pair.lanes.lose(pair.here, pair.there)

    assert await anext(stream) == b"two"
    with pytest.raises(MeshUnreachable):
        await anext(stream)


async def test_a_peer_that_starts_anew_counts_from_one_again():
    hangs = asyncio.Event()
    pair = Pair(Parts([], then=hangs.wait))
    first = asyncio.create_task(pair.ask())
    await settled()
    pair.lanes.lose(pair.here, pair.there)
    pair.lanes.mend(pair.here, pair.there)
    pair.asks.asking._numbers = 0
    second = asyncio.create_task(pair.ask())
    await settled()

    with pytest.raises(MeshUnreachable):
        await first
    assert pair.answers.junk == 0
    hangs.set()
    assert (await second).status == 200


async def test_a_question_waits_for_a_link_that_is_being_made():
    pair = Pair()
    pair.lanes.cut.add(frozenset((pair.here, pair.there)))
    asked = asyncio.create_task(pair.ask(job="train"))
    await settled()
    assert pair.lanes.said == []
    pair.lanes.mend(pair.here, pair.there)

    assert (await asked).body == b"ada@desk: train"


async def test_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(asking, "LINK_S", 0.1)
    pair = Pair()
    pair.lanes.cut.add(frozenset((pair.here, pair.there)))

    with pytest.raises(MeshUnreachable, match="no link"):
        await pair.ask()
    assert len(pair.asks.asking) == 0


async def test_who_does_not_answer_in_time_is_told_not_to_any_more(monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_S", 0.05)
    parts = Parts([], then=asyncio.Event().wait)
    pair = Pair(parts)

    with pytest.raises(MeshUnreachable, match=r"did not answer within 0\.05 s"):
        await pair.ask()
    await asyncio.wait_for(parts.is_closed.wait(), 5)
    assert pair.kinds() == ["Question", "NoMore"]


async def test_an_answer_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_BYTES_MAX", 100)
    parts = Parts([b"x" * 60] * 50)
    pair = Pair(parts)

    with pytest.raises(MeshUnreachable, match="longer than 100 bytes"):
        await pair.ask()
    await asyncio.wait_for(parts.is_closed.wait(), 5)


async def test_who_never_reads_on_is_left_alone_after_a_while(monkeypatch):
    monkeypatch.setattr(questions, "STALL_S", 0.05)
    parts = Parts([b"x"] * 100)
    pair = Pair(parts)
    stream = pair.stream()
    await anext(stream)
    await asyncio.wait_for(parts.is_closed.wait(), 5)
    await settled()

    assert pair.answers.answers == 0
    with pytest.raises(Overloaded, match="nobody reads"):
        _ = [part async for part in stream]


# --- Errors ---------------------------------------------------------------------------------------


def raises(error: BaseException):
    def now() -> None:
        raise error

    return now


async def test_an_error_of_the_operation_is_that_error_here():
    pair = Pair(Parts([], then=raises(NotFound("job", "train"))))
    told = await pair.ask()

    assert told.status == 404
    assert isinstance(refusal(told), NotFound)
    with pytest.raises(NotFound):
        await anext(Pair(Parts([], then=raises(NotFound("job", "train")))).stream())


async def test_an_error_in_the_middle_comes_after_what_was_said():
    pair = Pair(Parts([b"some"], then=raises(NotFound("job", "train"))))
    stream = pair.stream()

    assert await anext(stream) == b"some"
    with pytest.raises(NotFound):
        await anext(stream)
    assert pair.broke == []


async def test_a_mistake_of_the_other_node_is_told_here_and_logged_there():
    pair = Pair(Parts([], then=raises(ZeroDivisionError("oops"))))
    told = await pair.ask()
    await settled()

    assert "made a mistake: ZeroDivisionError" in str(refusal(told))
    assert pair.broke == [("question (job)", "ZeroDivisionError: oops")]


# --- Who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", sorted(ASKED))
@pytest.mark.parametrize(
    "roles", [("member",), ("admin",), ("worker", "member"), ("guest", "admin")]
)
async def test_members_and_admins_may_ask_everything_on_the_list(operation, roles):
    assert (await Pair(roles=roles, is_own=True).ask(operation)).status == 200


@pytest.mark.parametrize("operation", ["drain", "undrain"])
async def test_only_the_owners_machines_and_admins_drain(operation):
    assert (await Pair(roles=("admin",)).ask(operation)).status == 200
    assert (await Pair(roles=("member",), is_own=True).ask(operation)).status == 200
    error = refusal(await Pair(roles=("member",)).ask(operation))

    assert isinstance(error, NotPermitted)
    assert f"grid {operation}" in error.remedy


@pytest.mark.parametrize("operation", sorted(name for name in ASKED if not ASKED[name].by_workers))
async def test_a_worker_asks_nothing(operation):
    pair = Pair(roles=("worker",))
    told = await pair.ask(operation)

    assert isinstance(refusal(told), NotPermitted)
    assert pair.answers.refused == 1


async def test_what_runs_on_a_worker_may_ask_for_its_work():
    asked = {name for name in ASKED if (await Pair(roles=("worker",)).ask(name)).status == 200}

    assert asked == {"map_value", "take_calls", "take_part"}


async def test_a_guest_asks_about_jobs_only():
    allowed = {name for name in ASKED if (await Pair(roles=("guest",)).ask(name)).status == 200}

    assert allowed == {name for name in ASKED if ASKED[name].by_guests}
    assert {"status", "sharing", "queue", "events", "drain", "undrain"}.isdisjoint(allowed)
    assert {"job", "jobs", "wait", "cancel", "logs"} <= allowed


async def test_who_is_no_member_any_more_asks_nothing():
    pair = Pair()
    pair.roles = None

    assert isinstance(refusal(await pair.ask()), NotPermitted)


@pytest.mark.parametrize(
    "operation", ["submit", "down", "make_ticket", "change_offers", "kick", "x"]
)
async def test_what_is_not_on_the_list_cannot_be_asked(operation):
    assert isinstance(refusal(await Pair(roles=("admin",)).ask(operation)), NotFound)


# --- Junk and floods ------------------------------------------------------------------------------


async def test_words_about_what_nobody_asked_are_counted_and_harm_nothing():
    pair = Pair()
    for message in (
        Answer(number=7, status=200),
        AnswerPart(number=7, is_last=True),
        More(number=7),
        NoMore(number=7),
    ):
        pair.asks.told(pair.there, message)

    assert pair.asks.junk == 2  # The others may come late by right.
    assert (await pair.ask(job="still")).body == b"ada@desk: still"


@pytest.mark.parametrize(
    "words",
    [
        [AnswerPart(number=1)],
        [Answer(number=1, status=200, is_last=False), Answer(number=1, status=200)],
        [Answer(number=1, status=200, is_last=False), *[AnswerPart(number=1)] * WINDOW],
    ],
    ids=["part-first", "begins-twice", "no-room"],
)
async def test_a_peer_that_breaks_the_rules_of_one_answer_loses_that_one(words):
    pair = Pair(Parts([], then=asyncio.Event().wait))
    asked = asyncio.create_task(whole(pair.stream()))
    await settled()
    for word in words:
        pair.asks.told(pair.there, word)

    assert pair.asks.junk == 1
    with pytest.raises(MeshUnreachable):
        await asked
    await settled()
    assert pair.answers.answers == 0  # It was told that nobody wants the rest.


async def test_a_problem_that_cannot_be_read_is_one_all_the_same():
    pair = Pair(Parts([], then=asyncio.Event().wait))
    asked = asyncio.ensure_future(anext(pair.stream()))
    await settled()
    pair.asks.told(pair.there, Answer(number=1, status=500, body=b"\xff{"))

    with pytest.raises(MeshUnreachable, match="cannot be read"):
        await asked


async def test_room_that_nobody_used_cannot_be_given_back():
    parts = Parts([b"x"] * 100)
    pair = Pair(parts)
    stream = pair.stream()
    await anext(stream)
    await settled()
    before = parts.made
    for _ in range(50):
        pair.answers.told(pair.here, More(number=1, parts=WINDOW))
    await settled()

    assert pair.answers.junk == 49
    assert parts.made == before + WINDOW


async def test_the_same_number_twice_is_answered_once():
    parts = Parts([b"one"], then=asyncio.Event().wait)
    pair = Pair(parts)
    question = Question(number=1, operation="job")
    pair.answers.told(pair.here, question)
    pair.answers.told(pair.here, question)
    await settled()

    assert (pair.answers.junk, pair.answers.answers, parts.made) == (1, 1, 1)


async def test_a_flood_of_one_peer_costs_it_alone():
    pair = Pair(Parts([], then=asyncio.Event().wait))
    for number in range(1, 3_001):
        pair.answers.told(pair.here, Question(number=number, operation="job"))
    await settled()
    refused = [message for _, peer, message in pair.lanes.said if peer == pair.here]

    most = LIMITS["questions"].member // ANSWER_BYTES
    assert pair.answers.answers == most
    assert len(refused) == 3_000 - most
    assert all(message.status == 503 and b"too much" in message.body for message in refused)
    other = NodeId("c" * 64)
    pair.lanes.nodes[other] = pair.asks
    pair.answers._answering = echo
    pair.answers.told(other, Question(number=1, operation="job", query={"job": "mine"}))
    await settled()
    assert pair.lanes.said[-1][2].body.endswith(b"mine")
    pair.answers.lost(pair.here, "flooded")
    assert pair.answers.answers == 0


@pytest.mark.parametrize(
    ("roles", "is_own", "rank"),
    [
        (("guest",), False, "guest"),
        (("guest", "member"), False, "member"),
        (("worker",), False, "member"),
        (("guest",), True, "own"),
    ],
)
def test_how_much_may_be_asked_at_a_time_follows_from_the_role(roles, is_own, rank):
    assert Asker(NodeId("a"), "desk", roles, is_own=is_own).rank == rank


async def test_all_peers_together_are_bounded_too():
    pair = Pair(Parts([], then=asyncio.Event().wait))
    pair.answers._accounts.limits = Allowance(*[3 * ANSWER_BYTES] * 4, 0)
    for number in range(5):
        peer = NodeId(f"{number:064x}")
        pair.lanes.nodes[peer] = pair.asks
        pair.answers.told(peer, Question(number=1, operation="job"))

    assert pair.answers.answers == 3
    await pair.answers.close()
    assert pair.answers.answers == 0


async def test_what_is_asked_is_bounded_too(monkeypatch):
    monkeypatch.setattr(asking, "ASKED_MAX", 2)
    pair = Pair(Parts([], then=asyncio.Event().wait))
    asked = [asyncio.create_task(pair.ask()) for _ in range(3)]
    await settled()

    with pytest.raises(Overloaded):
        await asked[2]
    await pair.asks.close()
    for task in asked[:2]:
        with pytest.raises(MeshUnreachable, match="goes down"):
            await task


@given(st.binary(max_size=200))
def test_bytes_of_anybody_are_a_message_within_bounds_or_junk(body):
    try:
        message = msgspec.msgpack.decode(body, type=QuestionMessage)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    assert message.number >= 1


@pytest.mark.parametrize(
    "message",
    [
        {"type": "question", "number": 1, "operation": "x", "body": b"x" * (PART_BYTES_MAX + 1)},
        {"type": "question", "number": 1, "operation": "x" * 10_000},
        {
            "type": "question",
            "number": 1,
            "operation": "x",
            "query": {str(n): "" for n in range(17)},
        },
        {"type": "question", "number": 1, "operation": "x", "parts": WINDOW + 1},
        {"type": "question", "number": 0, "operation": "x"},
        {"type": "answer", "number": 1, "status": 99},
        {"type": "answer-part", "number": 1, "body": b"x" * (PART_BYTES_MAX + 1)},
        {"type": "more", "number": 1, "parts": 2**40},
        {"type": "no-more", "number": -1},
    ],
)
def test_a_message_out_of_bounds_is_junk(message):
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=QuestionMessage)


def test_a_piece_and_an_asker_are_plain_values():
    assert Piece(200, b"x").status == 200
    assert Asker(NodeId("a"), "desk", ("guest",), "ada").is_guest
