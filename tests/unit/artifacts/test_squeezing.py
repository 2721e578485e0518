"""Chunks that shrink on their way over a slow link."""

from distributed_grid.agent import shipping_lane
from distributed_grid.agent.shipping_lane import squeeze
from distributed_grid.agent.shipping_out import Shipment
from distributed_grid.model.artifact import CHUNK_BYTES_MAX
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import Chunk
from tests.unit.artifacts.lab import files_of, noise, packed, picture, plant, shipped, two_nodes


def test_only_what_shrinks_is_squeezed():
    text = b"the same again and again " * 20_000

    assert len(squeeze(text)) < len(text) // 10
    assert squeeze(noise(CHUNK_BYTES_MAX)) is None


async def test_over_a_slow_link_chunks_are_squeezed(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping_lane, "SLOW_BYTES_S", 1 << 60)
    lines = "".join(f"{n} lines of text\n" for n in range(800_000))
    root = plant(tmp_path / "w", {"text": lines})
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        await shipped(wire, ada, name)
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))

        assert picture(tmp_path / "x") == picture(root)
        assert ada.bytes_sent < len(lines) * 3 // 4
        assert any(isinstance(said, Chunk) and said.is_squeezed for _, said in wire.said)


async def test_whoever_shares_the_way_out_with_others_is_not_slow_for_that(tmp_path, monkeypatch):
    lines = "".join(f"{n} lines of text\n" for n in range(800_000))
    root = plant(tmp_path / "w", {"text": lines})
    async with two_nodes(tmp_path) as (wire, ada, _):
        monkeypatch.setattr(Shipment, "rate", lambda *_: shipping_lane.SLOW_BYTES_S // 2)
        monkeypatch.setattr(ada, "sending", lambda: 2)
        await shipped(wire, ada, packed(ada, root))

        assert not any(isinstance(said, Chunk) and said.is_squeezed for _, said in wire.said)


async def test_only_transfers_that_send_over_a_link_share_the_way_out(tmp_path, monkeypatch):
    root = plant(tmp_path / "w", {"large": noise(5 * CHUNK_BYTES_MAX)})
    counts = []
    async with two_nodes(tmp_path) as (wire, ada, _):
        monkeypatch.setattr(Shipment, "rate", lambda *_: counts.append(ada.sending()))
        name = packed(ada, root)
        await ada.ship(NodeId("c" * 64), name)  # Nobody has a link to it.
        await shipped(wire, ada, name)

        assert set(counts) == {1}
        assert ada.sending() == 0


async def test_a_transfer_whose_link_is_gone_shares_nothing(tmp_path, monkeypatch):
    root = plant(tmp_path / "w", {"large": noise(5 * CHUNK_BYTES_MAX)})
    async with two_nodes(tmp_path) as (wire, ada, _):
        seen = []

        def rate(*_):
            if not seen:
                seen.append(ada.sending())
                wire.down()
                seen.append(ada.sending())
                wire.up()

        monkeypatch.setattr(Shipment, "rate", rate)
        shipment = await shipped(wire, ada, packed(ada, root))

        assert seen == [1, 0]
        assert shipment.state == "complete"
