"""A peer that does not read what is said about files loses its link."""

from types import SimpleNamespace

from distributed_grid.agent.bulk import Bulk
from tests.unit.artifacts.lab import BOB, a_store


async def test_the_link_is_closed_and_without_any_nothing_happens(tmp_path):
    parted: list = []
    links = SimpleNamespace(hang_up=lambda *words: parted.append(words))
    mesh = SimpleNamespace(links=links, broke=lambda _: None, blame=lambda *_: None)
    bulk = Bulk(a_store(tmp_path / "cache"), mesh)
    bulk.shipping.hang_up(BOB)
    mesh.links = None
    bulk.shipping.hang_up(BOB)

    assert parted == [(BOB, "does not read")]
