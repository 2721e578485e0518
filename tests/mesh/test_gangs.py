"""Gangs of real processes on three machines: all ranks or none, and they find each other."""

import json
import sys

import pytest

from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

NAMES = ("desk", "attic", "barn")
# Each rank but the first says who it is to the first, which listens where all were told to meet.
MEET = """
import json, os, signal, socket, sys
rank, world = int(os.environ["GRID_RANK"]), int(os.environ["GRID_WORLD_SIZE"])
host, _, port = os.environ["GRID_RENDEZVOUS"].rpartition(":")
if rank:
    while True:
        try:
            line = socket.create_connection((host, int(port)))
            break
        except ConnectionRefusedError:
            signal.sigtimedwait([], 0.05)
    line.sendall(bytes([rank]))
    print("met", file=sys.stderr)
else:
    with socket.create_server((host, int(port))) as door:
        guests = [door.accept() for _ in range(world - 1)]
        ranks = sorted(line.recv(1)[0] for line, _ in guests)
        from_where = sorted(address[0] for _, address in guests)
    peers = os.environ["GRID_PEERS"].split(",")
    print(json.dumps({"ranks": ranks, "from": from_where, "peers": peers, "host": host}))
"""
# The second rank fails the first time, while the others wait.
FAILS_ONCE = """
[ $GRID_ATTEMPT = 1 ] || exit 0
[ $GRID_RANK = 1 ] && exit 3
exec "$@"
"""


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_wire(NAMES, PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def ranks(member, word: str) -> dict[int, list[str]]:
    """The nodes of each try."""
    tried: dict[int, list[str]] = {}
    for one in job(member, word)["attempts"]:
        tried.setdefault(one["number"], []).append(one["node"])
    return tried


def test_ranks_on_three_machines_meet_at_the_address_that_all_were_told(lab):
    desk = lab["desk"]
    word = submitted(desk, "--gang", "3", "--cpus", "2", "--", sys.executable, "-c", MEET)

    assert over(desk, word) == {"succeeded"}, job(desk, word)
    (nodes,) = ranks(desk, word).values()
    assert sorted(nodes) == sorted(NAMES)
    told = json.loads(desk.says("logs", word))
    addresses = {lab.host(name).address for name in NAMES}
    assert told["ranks"] == [1, 2]
    assert set(told["peers"]) == addresses
    assert told["host"] == told["peers"][0]
    assert {told["host"], *told["from"]} == addresses
    for member in lab.members:
        assert json.loads(member.says("logs", "--rank", "0", word)) == told
        for rank in ("1", "2"):
            assert member.says("logs", "--stderr", "--rank", rank, word) == "met\n"
            assert member.says("logs", "--rank", rank, word) == ""
        assert "--rank" in member("logs", "--rank", "3", word).stderr
    single = submitted(desk, "--node", "desk", "true")
    assert "is no gang" in desk("logs", "--rank", "0", single).stderr


def test_a_rank_that_fails_ends_all_and_all_are_tried_again(lab, gate):
    desk = lab["desk"]
    word = submitted(
        desk, "--gang", "3", "--cpus", "2", "--retries", "1", "--",
        "sh", "-c", FAILS_ONCE, "sh", *gate.words("true"),
    )  # fmt: skip

    assert over(desk, word) == {"succeeded"}, job(desk, word)
    tried = ranks(desk, word)
    assert {number: sorted(nodes) for number, nodes in tried.items()} == {
        1: sorted(NAMES),
        2: sorted(NAMES),
    }


@pytest.mark.rows("S0-89")
def test_the_machine_of_a_rank_dies_and_the_gang_is_placed_again_as_a_whole(lab, gate):
    desk = lab["desk"]
    word = submitted(desk, "--gang", "2", "--avoid", "desk", "--cpus", "1", *gate.words("true"))
    once(desk, word, "running")
    awaited(lambda: {"attic", "barn"} & {*ranks(desk, word)[1]})
    victim = lab[ranks(desk, word)[1][-1]]
    victim.kill()
    awaited(lambda: len(ranks(desk, word)) == 2 and job(desk, word)["state"] == "running",
            lambda: job(desk, word), 60)  # fmt: skip
    gate.open()

    assert over(desk, word) == {"succeeded"}
    assert victim.name not in ranks(desk, word)[2]
    victim.up()
    lab.settled(lab.members)


def test_a_gang_that_does_not_fit_now_waits_as_a_whole(lab, gate):
    desk = lab["desk"]
    first = submitted(desk, "--node", "attic", "--cpus", "2", *gate.words("true"))
    once(desk, first, "running")
    word = submitted(desk, "--gang", "3", "--cpus", "2", "true")
    assert job(desk, word)["attempts"] == []
    gate.open()

    assert over(desk, first, word) == {"succeeded"}
