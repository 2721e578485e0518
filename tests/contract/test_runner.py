import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from distributed_grid.edges.runner import Runner, agent_link
from distributed_grid.edges.runner.agent_link import RunnerGone
from distributed_grid.edges.runner.deadlines import boot_us
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.keeper import (
    Acknowledge,
    Deadline,
    Ended,
    Preempt,
    Quit,
    Resume,
    Run,
    Started,
    Stop,
    StopIndex,
    Suspend,
    Withdraw,
)
from tests.keeper_lab import KeeperLab

Reconnect = Callable[[], Awaitable[Runner]]
Suite = Callable[[Runner, Reconnect], Awaitable[None]]
Check = Callable[[Suite], None]


@pytest.fixture(params=["memory", "process"])
def check(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Check]:
    """Run one coroutine of the suite on each implementation."""
    if request.param == "memory":
        yield check_memory
        return
    lab = KeeperLab(tmp_path)
    lab.start()

    def check_process(suite: Suite) -> None:
        async def run() -> None:
            links = []

            async def connect() -> Runner:
                os.kill(lab.agent_pid, signal.SIGKILL)  # The lab has read its hello.
                line = await asyncio.to_thread(lab.accept)
                links.append(await agent_link.connect(os.dup(line.fileno())))
                return links[-1]

            await suite(await connect(), connect)
            for link in links:
                await link.close()

        asyncio.run(asyncio.wait_for(run(), 30))

    yield check_process
    lab.close()


def check_memory(suite: Suite) -> None:
    async def run() -> None:
        runner = MemoryRunner()

        async def reconnect() -> Runner:
            return runner.connect()

        await suite(runner, reconnect)

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.fixture
def a_run(tmp_path: Path) -> Callable[..., Run]:
    def build(
        *argv: str, attempt: str = "one", indices: tuple[int, ...] = (), lease: str = ""
    ) -> Run:
        return Run(
            attempt=attempt,
            job=job_id_of("contract"),
            argv=argv,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            output_dir=str(tmp_path / "output" / attempt),
            scratch_dir=str(tmp_path / "scratch" / attempt),
            indices=indices,
            lease=lease,
        )

    return build


async def ends(runner: Runner, attempt: str = "one") -> list[Ended]:
    found = []
    async for report in runner:
        if isinstance(report, Ended) and report.attempt == attempt:
            found.append(report)
            if report.is_last:
                return found
    raise AssertionError("the runner is gone")


@pytest.mark.parametrize(
    ("argv", "how", "code"),
    [
        (("true",), "exited", 0),
        (("false",), "exited", 1),
        (("sh", "-c", "exit 3"), "exited", 3),
        (("no-such-command",), "not-found", 127),
    ],
)
def test_every_run_ends_with_a_report(
    check: Check, a_run: Callable[..., Run], argv: tuple[str, ...], how: str, code: int
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run(*argv))
        (ended,) = await ends(runner)

        assert (ended.how, ended.code, ended.index, ended.is_last) == (how, code, -1, True)

    check(suite)


def test_a_chunk_runs_in_order_and_tells_one_start(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("true", indices=(4, 2, 9)))
        first, *_rest = await runner.receive()
        assert isinstance(first, Started)
        assert first.index == 4

    check(suite)


def test_the_indices_of_a_chunk_end_in_order(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("true", indices=(4, 2, 9)))
        ended = await ends(runner)

        assert [report.index for report in ended] == [4, 2, 9]
        numbers = [report.number for report in ended]
        assert numbers == sorted(set(numbers))

    check(suite)


def test_a_stopped_chunk_starts_nothing_more(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("sleep", "600", indices=(1, 2)))
        await runner.receive()
        await runner.send(Stop(attempt="one"))
        (ended,) = await ends(runner)

        assert (ended.how, ended.code, ended.index) == ("stopped", 143, 1)

    check(suite)


def test_a_skipped_index_is_told(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("sleep", "600", indices=(1, 2)))
        await runner.receive()
        await runner.send(StopIndex(attempt="one", index=2))
        await runner.send(StopIndex(attempt="one", index=1))
        ended = await ends(runner)

        assert [(report.index, report.how) for report in ended] == [(2, "stopped"), (1, "stopped")]

    check(suite)


def test_a_new_agent_hears_what_was_not_acknowledged(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, reconnect: Reconnect) -> None:
        await runner.send(a_run("true", attempt="one"))
        (one,) = await ends(runner, "one")
        await runner.send(Acknowledge(upto=one.number))
        await runner.send(a_run("false", attempt="two"))
        await ends(runner, "two")
        await runner.send(a_run("sleep", "600", attempt="three"))
        await runner.receive()
        again = await reconnect()

        assert again.hello.running == ("three",)
        assert again.hello.unacknowledged == 3  # Start and end of two, start of three.
        (two,) = await ends(again, "two")
        assert two.code == 1

    check(suite)


def test_what_is_unknown_or_known_already_changes_nothing(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(Stop(attempt="nobody"))
        await runner.send(StopIndex(attempt="nobody", index=1))
        await runner.send(a_run("sleep", "600"))
        await runner.send(a_run("true"))
        await runner.send(Stop(attempt="one"))

        assert [report.how for report in await ends(runner)] == ["stopped"]

    check(suite)


def test_after_quit_the_line_ends(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("sleep", "600"))
        await runner.receive()
        await runner.send(Quit(stop_jobs=True))
        reports = [report async for report in runner]

        assert [report.how for report in reports if isinstance(report, Ended)] == ["stopped"]
        with pytest.raises(RunnerGone):
            await runner.send(Quit())

    check(suite)


async def until_all_are_over(runner: Runner, count: int) -> list[Started | Ended]:
    found: list[Started | Ended] = []
    while sum(isinstance(report, Ended) and report.is_last for report in found) < count:
        found += await runner.receive()
    return found


def test_attempts_of_one_lease_run_one_after_the_other(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        for attempt, command in (("a", "true"), ("b", "no-such-command"), ("c", "false")):
            await runner.send(a_run(command, attempt=attempt, lease="l"))
        reports = await until_all_are_over(runner, 3)

        assert [(type(report), report.attempt) for report in reports] == [
            (Started, "a"), (Ended, "a"), (Ended, "b"), (Started, "c"), (Ended, "c"),
        ]  # fmt: skip

    check(suite)


def test_who_waits_can_be_given_back_and_who_runs_cannot(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        for attempt in ("a", "b"):
            await runner.send(a_run("sleep", "600", attempt=attempt, lease="l"))
        for attempt in ("a", "b", "nobody"):
            await runner.send(Withdraw(attempt=attempt))
        (ended,) = await ends(runner, "b")
        await runner.send(Stop(attempt="a"))
        (stopped,) = await ends(runner, "a")

        assert (ended.how, ended.code, ended.index) == ("stopped", 125, -1)
        assert ended.note == "given back before it started"
        assert ended.started_ms == ended.ended_ms
        assert (stopped.how, stopped.code) == ("stopped", 143)

    check(suite)


def test_who_waits_can_be_stopped_whole_or_by_index(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("sleep", "600", attempt="a", lease="l"))
        await runner.send(a_run("sleep", "600", attempt="b", lease="l"))
        await runner.send(a_run("true", attempt="c", indices=(1, 2), lease="l"))
        await runner.send(a_run("true", attempt="d", indices=(3, 4), lease="l"))
        await runner.send(Stop(attempt="b"))
        for attempt, index in (("c", 1), ("c", 7), ("d", 4), ("d", 3)):
            await runner.send(StopIndex(attempt=attempt, index=index))
        await runner.send(Stop(attempt="a"))
        reports = await until_all_are_over(runner, 4)
        told = [
            (report.attempt, report.how, report.code, report.index, report.is_last)
            for report in reports
            if isinstance(report, Ended)
        ]

        assert told == [
            ("b", "stopped", 143, -1, True),
            ("c", "stopped", 143, 1, False),
            ("d", "stopped", 143, 4, False),
            ("d", "stopped", 143, 3, True),
            ("a", "stopped", 143, -1, True),
            ("c", "exited", 0, 2, True),
        ]

    check(suite)


def test_a_new_agent_hears_who_waits(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, reconnect: Reconnect) -> None:
        for attempt in ("a", "b", "c"):
            await runner.send(a_run("sleep", "600", attempt=attempt, lease="l"))
        await runner.send(a_run("true", attempt="b", lease="l"))  # Known already.
        await runner.receive()
        again = await reconnect()

        assert again.hello.running == ("a", "b", "c")
        assert again.hello.queued == ("b", "c")

    check(suite)


def test_quitting_ends_who_waits_too(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        for attempt in ("a", "b"):
            await runner.send(a_run("sleep", "600", attempt=attempt, lease="l"))
        await runner.receive()
        await runner.send(Quit(stop_jobs=True))
        ended = [report async for report in runner if isinstance(report, Ended)]

        assert [(report.attempt, report.how, report.note) for report in ended] == [
            ("b", "stopped", "did not start"), ("a", "stopped", ""),
        ]  # fmt: skip

    check(suite)


def test_who_gives_way_is_preempted_and_starts_nothing_more(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        await runner.send(a_run("sleep", "600", indices=(1, 2)))
        await runner.receive()
        await runner.send(Preempt(attempt="one"))
        await runner.send(Preempt(attempt="one"))
        (ended,) = await ends(runner)

        assert (ended.how, ended.code, ended.index) == ("preempted", 143, 1)

    check(suite)


def test_who_waits_and_is_to_give_way_is_given_back(
    check: Check, a_run: Callable[..., Run]
) -> None:
    async def suite(runner: Runner, _: Reconnect) -> None:
        for attempt in ("a", "b"):
            await runner.send(a_run("sleep", "600", attempt=attempt, lease="l"))
        await runner.send(Preempt(attempt="b"))
        (ended,) = await ends(runner, "b")

        assert (ended.how, ended.code, ended.note) == (
            "stopped", 125, "given back before it started",
        )  # fmt: skip

    check(suite)


def test_a_new_agent_hears_who_is_suspended(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, reconnect: Reconnect) -> None:
        for attempt in ("a", "b", "c"):
            await runner.send(a_run("sleep", "600", attempt=attempt))
        for message in (Suspend(attempt="a"), Suspend(attempt="b"), Suspend(attempt="nobody")):
            await runner.send(message)
        await runner.send(Resume(attempt="b"))
        await runner.send(Resume(attempt="nobody"))
        await until_started(runner, 3)
        again = await reconnect()

        assert again.hello.suspended == ("a",)

    check(suite)


def test_a_new_agent_hears_of_deadlines(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, reconnect: Reconnect) -> None:
        far = boot_us() + 600_000_000
        for attempt, until in (("a", far), ("b", far), ("c", 0), ("d", far)):
            run = a_run("sleep", "600", attempt=attempt)
            await runner.send(msgspec.structs.replace(run, until_boot_us=until))
        await runner.send(Deadline(attempt="a", until_boot_us=far - 1))
        await runner.send(Deadline(attempt="b", until_boot_us=far + 1))
        await runner.send(Deadline(attempt="nobody", until_boot_us=far))
        await until_started(runner, 4)
        await runner.send(Stop(attempt="d"))
        await ends(runner, "d")
        again = await reconnect()

        assert again.hello.deadlines == {"a": far, "b": far + 1}

    check(suite)


def test_who_is_suspended_can_be_stopped(check: Check, a_run: Callable[..., Run]) -> None:
    async def suite(runner: Runner, reconnect: Reconnect) -> None:
        await runner.send(a_run("sleep", "600"))
        await runner.send(Suspend(attempt="one"))
        await runner.send(Stop(attempt="one"))
        (ended,) = await ends(runner)

        assert (ended.how, ended.code) == ("stopped", 143)
        assert (await reconnect()).hello.suspended == ()

    check(suite)


async def until_started(runner: Runner, count: int) -> None:
    found: list[Started | Ended] = []
    while len(found) < count:
        found += await runner.receive()
