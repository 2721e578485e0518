"""What calls print, against a real agent: shown where the program runs, and kept in the log."""

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from distributed_grid import Executor
from distributed_grid.client.cluster import Cluster, connect
from distributed_grid.client.printing import PRINTED_CHARACTERS_MAX
from tests.agent_lab import AgentLab
from tests.keeper_lab import wait_until

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[AgentLab]:
    made = AgentLab()
    try:
        yield made.up()
    finally:
        made.close()


@pytest.fixture
def cluster(lab: AgentLab) -> Iterator[Cluster]:
    with connect(lab.home / "agent.sock") as made:
        yield made


def talkative(number):
    print("begin", number)
    print("warning", number, file=sys.stderr)
    sys.stdout.writelines(["end ", f"{number}\n"])
    return number


def test_what_calls_of_a_map_print_is_shown_each_in_order(cluster, capsys):
    found = list(cluster.map(talkative, range(100)))
    shown = capsys.readouterr()

    assert found == list(range(100))
    lines = shown.out.splitlines()
    assert sorted(lines[::2]) == sorted(f"begin {n}" for n in range(100))
    assert [line.replace("begin", "end") for line in lines[::2]] == lines[1::2]
    assert sorted(shown.err.splitlines()) == sorted(f"warning {n}" for n in range(100))


def test_what_calls_of_an_executor_print_is_shown_also_if_they_raise(cluster, capsys):
    def failing(word):
        print(word)
        raise LookupError(word)

    with Executor(cluster=cluster) as executor:
        assert isinstance(executor.submit(failing, "alas").exception(PATIENCE_S), LookupError)

    assert capsys.readouterr().out == "alas\n"


def test_it_can_be_turned_off_and_is_in_the_log_all_the_same(lab, cluster, capsys):
    assert list(cluster.map(talkative, [7], prints=False, name="quiet")) == [7]
    with Executor(cluster=cluster, prints=False) as executor:
        assert executor.submit(talkative, 8).result(PATIENCE_S) == 8
    [job] = cluster.jobs(name="quiet")
    shown = capsys.readouterr()

    assert (shown.out, shown.err) == ("", "")
    wait_until(lambda: b"begin 7" in lab("logs", "--index", "0", job.id).stdout)


def test_it_is_cut_where_it_is_too_much(cluster, capsys):
    def endless(_):
        for _ in range(100):
            print("x" * (PRINTED_CHARACTERS_MAX // 50))

    list(cluster.map(endless, [0]))
    shown = capsys.readouterr().out

    assert len(shown) < PRINTED_CHARACTERS_MAX + 200
    assert shown.endswith("[… more is in `grid logs` of its workers]\n")


def test_a_stream_that_takes_nothing_harms_nobody(cluster, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", closed)
    monkeypatch.setattr(logging, "raiseExceptions", False)

    assert list(cluster.map(talkative, range(3))) == [0, 1, 2]
