"""Who has changed is seen at once, and who has not is not looked at again."""

import msgspec

from distributed_grid.agent import peer_book
from distributed_grid.agent.peer_book import AGED_US, PeerBook
from distributed_grid.agent.peers import peers_of
from distributed_grid.wire.mesh import JOBS, Goodbye
from tests.unit.agent.mesh_lab import LOAD, PROFILE, MeshLab, until

NEW = msgspec.structs.replace(PROFILE, jobs=JOBS)


def told(node, load) -> None:
    node.values["load"] = msgspec.msgpack.encode(load)


def later(node, us):
    now = node.now()
    return msgspec.structs.replace(now, mono_us=now.mono_us + us)


def at_rest(peers):
    """Without what is measured, and differs from look to look."""
    fixed = {}
    for node, peer in peers.items():
        record = peer.record and msgspec.structs.replace(peer.record, age_ms=0, network=None)
        fixed[node] = msgspec.structs.replace(peer, record=record)
    return fixed


async def test_the_book_shows_what_a_look_at_everyone_shows():
    async with MeshLab() as lab:
        alpha, beta, old = await lab.mesh_of("alpha", "beta", "old", profile=NEW)
        old.values["profile"] = msgspec.msgpack.encode(PROFILE)
        book = PeerBook()

        def is_same():
            seen, own = book.look(alpha.mesh, alpha.now())
            all_seen, all_own = peers_of(alpha.mesh, alpha.now())
            assert at_rest(seen) == at_rest(all_seen)
            assert (own is None) == (all_own is None)
            return seen

        await until(lambda: set(is_same()) == {beta.id})
        told(beta, msgspec.structs.replace(LOAD, jobs_waiting=3))
        await until(lambda: is_same()[beta.id].jobs_waiting == 3)
        beta.side.links.send(alpha.id, Goodbye(reason="restarting"))
        await until(lambda: is_same()[beta.id].restarting_until_ms)
        for one in (alpha, old):
            lab.network.cut(one.id, beta.id)
        await until(lambda: not is_same()[beta.id].is_alive)


async def test_who_is_as_before_is_the_same_object_until_it_has_aged(monkeypatch):
    async with MeshLab() as lab:
        alpha, beta, gamma = await lab.mesh_of("alpha", "beta", "gamma", profile=NEW)
        for node in (alpha, beta, gamma):
            told(node, LOAD)
        book = PeerBook()

        def look(us=0):
            return book.look(alpha.mesh, later(alpha, us))[0]

        await until(lambda: len(look()) == 2 and all(peer.record for peer in look().values()))
        before = look()  # From here on nobody else gets a turn.
        assert all(look()[node] is before[node] for node in before)
        assert look() is look()  # Nobody needs to look at any of them.
        alpha.mesh.restarting[beta.id] = 5
        assert look()[beta.id].restarting_until_ms == 5
        assert look()[gamma.id] is before[gamma.id]

        monkeypatch.setattr(peer_book, "AGED_MAX", 1)
        now = look()
        aged = [look(AGED_US) for _ in range(3)]  # One at a time, the node itself included.
        assert sum(aged[0][node] is not now[node] for node in now) <= 1
        assert all(aged[2][node] is not now[node] for node in now)
