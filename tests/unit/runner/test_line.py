import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from distributed_grid.edges.runner import KEEPER_FD, agent_link
from distributed_grid.edges.runner.agent_link import RunnerGone, ask_for_agent
from distributed_grid.edges.runner.door import CALLERS_MAX, Door
from distributed_grid.edges.runner.journal import Journal
from distributed_grid.wire.frames import framed
from distributed_grid.wire.keeper import Adopt, Adopted, Hello, Quit, Started
from tests.keeper_lab import KeeperLab, is_alive, wait_until

HELLO = Hello(keeper_id="k", boot_id="b", pid=1, limits={}, running=())


def connected(*sent: bytes, then: Callable[[agent_link.AgentLink], object]) -> object:
    """An agent's end; the test is the keeper, says a few things and hangs up."""

    async def talk() -> object:
        ours, theirs = socket.socketpair()
        ours.sendall(b"".join(sent))
        ours.shutdown(socket.SHUT_WR)
        with ours:
            link = await agent_link.connect(theirs.detach())
            try:
                return await then(link)
            finally:
                await link.close()

    return asyncio.run(talk())


def test_reports_that_come_with_the_hello_are_not_lost() -> None:
    started = Started(number=1, attempt="a", pid=1, at_ms=1)
    data = framed(msgspec.msgpack.encode(HELLO)) + framed(msgspec.msgpack.encode(started))

    async def all_of_it(link: agent_link.AgentLink) -> list[object]:
        return [report async for report in link]

    assert connected(data, then=all_of_it) == [started]


def test_junk_from_a_keeper_is_the_end_of_it() -> None:
    async def all_of_it(link: agent_link.AgentLink) -> tuple[object, ...]:
        return await link.receive()

    data = framed(msgspec.msgpack.encode(HELLO))
    assert connected(data, framed(b"\xc1"), then=all_of_it) == ()


def test_a_line_that_ends_before_the_hello_is_told() -> None:
    with pytest.raises(RunnerGone):
        connected(then=lambda _: None)


def test_a_closed_line_cannot_be_sent_to() -> None:
    async def close_and_send(link: agent_link.AgentLink) -> None:
        await link.close()
        await link.send(Quit())

    with pytest.raises(RunnerGone):
        connected(framed(msgspec.msgpack.encode(HELLO)), then=close_and_send)


@pytest.mark.parametrize("word", [None, "", "word", "987654"])
def test_a_process_that_no_keeper_started_is_told_so(
    monkeypatch: pytest.MonkeyPatch, word: str | None
) -> None:
    monkeypatch.delenv(KEEPER_FD, raising=False)
    if word is not None:
        monkeypatch.setenv(KEEPER_FD, word)
    with pytest.raises(RunnerGone):
        asyncio.run(agent_link.connect())


def test_the_door_answers_one_question_and_shrugs_at_junk(tmp_path: Path) -> None:
    door = Door(str(tmp_path))
    answers = []
    for data in (framed(msgspec.msgpack.encode(Adopt(argv=("x",), env={}))), b"\xff" * 9, b""):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(tmp_path / "keeper.sock"))
            descriptor = door.open()
            assert descriptor is not None
            if data:
                assert door.answer(descriptor, lambda _: Adopted(keeper_pid=1))
                caller.sendall(data)
            else:
                caller.shutdown(socket.SHUT_WR)
            assert not door.answer(descriptor, lambda _: Adopted(keeper_pid=1))
            answers.append(caller.recv(1_000))
    door.close()

    assert [bool(answer) for answer in answers] == [True, False, False]
    assert not (tmp_path / "keeper.sock").exists()


def test_the_door_lets_only_a_few_in(tmp_path: Path) -> None:
    door = Door(str(tmp_path))
    callers = [socket.socket(socket.AF_UNIX) for _ in range(CALLERS_MAX + 1)]
    found = []
    for caller in callers:
        caller.connect(str(tmp_path / "keeper.sock"))
        found.append(door.open())
    assert door.open() is None
    door.close()
    for caller in callers:
        caller.close()

    assert [descriptor is None for descriptor in found] == [False] * CALLERS_MAX + [True]


def test_a_keeper_whose_agent_cannot_be_executed_says_so_at_the_door(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    lab.send(lab.a_run("sleep", "600"))
    lab.started()
    lab.send(Quit())
    lab.let_agent_go()
    wait_until(lambda: not is_alive(lab.agent_pid))
    answer = ask_for_agent(str(lab.data_dir), Adopt(argv=("/no/such/agent",), env={}))

    assert answer.refusal == "the agent could not be started"


def test_an_agent_that_stays_after_its_line_ended_is_killed(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    before = lab.agent_pid
    lab.send_raw(b"\xff" * 8)
    started = time.monotonic()
    lab.connect()

    assert not is_alive(before)
    assert time.monotonic() - started < 3


def test_a_journal_without_space_is_remembered_not_raised(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "j"))
    journal._handle = os.open("/dev/full", os.O_RDWR)
    journal.add(Started(number=1, attempt="a", pid=1, at_ms=1))
    journal.flush()

    assert journal.trouble == "No space left on device"
