"""Memory and iroh keep the same promises. iroh runs in a network namespace, in one process."""

import asyncio
import json
import subprocess

import pytest

from distributed_grid.edges.transport import Admit, Datagram, Limits
from distributed_grid.edges.transport.memory import MemoryNetwork, MemoryTransport
from distributed_grid.model.ids import NodeId
from tests.conftest import ROOT
from tests.contract import iroh_cases, transport_cases
from tests.namespaces import alone, python

ON_ASYNCIO = ["messages_arrive_whole_and_in_order", "both_ends_see_the_end_and_the_last_words"]


class MemoryLab:
    nowhere = ("memory:nowhere",)

    def __init__(self) -> None:
        self._network = MemoryNetwork()
        self._ends: list[MemoryTransport] = []

    async def end(
        self,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        admit: Admit = lambda _: True,
    ) -> MemoryTransport:
        node = NodeId(f"{len(self._ends) * 7 % 11:064x}")
        end = MemoryTransport(node, self._network, limits=limits, admit=admit)
        await end.open()
        self._ends.append(end)
        return end

    async def close(self) -> None:
        for end in self._ends:
            await end.close()


@pytest.mark.parametrize("name", transport_cases.CASES)
async def test_memory(name):
    lab = MemoryLab()
    try:
        await transport_cases.CASES[name](lab)
    finally:
        await lab.close()


def _in_a_namespace(module, loop, names):
    program = python("-m", "tests.contract.transport_child", module.__name__, loop, *names)
    done = subprocess.run(
        alone(program), cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    results = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    missing = f"the child ended with {done.returncode}: {done.stderr[-2_000:]}"
    return {name: results.get(name, missing) for name in names}


@pytest.fixture(scope="module")
def outcomes(request):
    """Every case over iroh that was asked for, run once."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if getattr(item, "callspec", None) is not None
        and item.function in {test_iroh, test_iroh_itself, test_iroh_on_asyncio}
    }
    shared = [name for name in transport_cases.CASES if name in wanted]
    own = [name for name in iroh_cases.CASES if name in wanted]
    return {
        "shared": _in_a_namespace(transport_cases, "uvloop", shared),
        "own": _in_a_namespace(iroh_cases, "uvloop", own),
        "asyncio": _in_a_namespace(
            transport_cases, "asyncio", [name for name in ON_ASYNCIO if name in wanted]
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", transport_cases.CASES)
def test_iroh(name, outcomes):
    problem = outcomes["shared"][name]

    assert not problem, problem


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ASYNCIO)
def test_iroh_on_asyncio(name, outcomes):
    problem = outcomes["asyncio"][name]

    assert not problem, problem


@pytest.mark.slow
@pytest.mark.parametrize("name", iroh_cases.CASES)
def test_iroh_itself(name, outcomes):
    problem = outcomes["own"][name]

    assert not problem, problem


async def test_a_cut_is_silent_and_heals():
    network = MemoryNetwork()
    one, other = (MemoryTransport(NodeId(letter * 64), network) for letter in "ab")
    await one.open()
    await other.open()
    link = await one.dial(other.contact(), timeout_ms=100)
    there = await other.accept()
    link.trust()
    there.trust()
    network.cut(one.id, other.id, is_one_way=True)
    await link.send(b"late")
    link.send_datagram(b"lost")
    there.send_datagram(b"the other way")

    assert await link.receive_datagrams() == [Datagram(b"the other way")]
    taking = asyncio.create_task(there.receive())
    await asyncio.wait({taking}, timeout=0.05)
    assert not taking.done()
    network.heal()
    assert await taking == ("control", b"late")
    network.break_links(one.id, other.id)
    assert await there.receive() is None
    await one.close()
    await other.close()
