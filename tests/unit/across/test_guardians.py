"""Whom a home chooses to hold copies."""

from distributed_grid.kernel.across import guardians as guardians_module
from distributed_grid.kernel.across.guardians import Choice, mended
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.placement.rank import rank_key
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import job_id_of
from tests.unit.across.guard_lab import JOB, Mesh, node


def sent(ready: Ready, kind: type) -> list:
    return [(to, message) for to, message in ready.send if isinstance(message, kind)]


def peers(*numbers: int, **facts) -> dict:
    return {node(n): Peer(id=node(n), name=str(n), **facts) for n in numbers}


def choice(**kinds) -> Choice:
    made = Choice()
    made.see({key: peer for kind in kinds.values() for key, peer in kind.items()})
    return made


def test_three_are_chosen_by_rank():
    mesh = Mesh(9)
    mesh.submit(1)
    others = sorted((node(n) for n in range(2, 10)), key=lambda n: rank_key("even", JOB, n))

    assert list(mesh[1].jobs[JOB].guardians) == others[:3]


def test_laptops_come_after_others_then_who_cannot_be_dialled_then_full_disks():
    made = choice(
        far=peers(2, is_dialable=False),
        lap=peers(3, is_laptop=True),
        good=peers(4),
        dead=peers(5, is_alive=False),
        full=peers(8, is_disk_full=True),
    )
    workers = choice(workers=peers(6, may_submit=False), guests=peers(7, may_lend=False))

    assert made.first(JOB, 9, without=lambda _: False) == [node(4), node(3), node(2), node(8)]
    assert workers.is_empty
    mixed = choice(lap=peers(2, 3, 4, 5, is_laptop=True), good=peers(6))
    for number in range(8):  # Whatever their ranks are.
        assert mixed.first(job_id_of(str(number)), 1, without=lambda _: False) == [node(6)]


def test_in_a_large_mesh_only_some_are_ranked_and_jobs_spread_over_all(monkeypatch):
    monkeypatch.setattr(guardians_module, "RANKED_MAX", 4)
    made = choice(all=peers(*range(1, 40)))

    found = {
        guardian
        for number in range(300)
        for guardian in made.first(job_id_of(str(number)), 3, without=lambda _: False)
    }

    assert found == {node(n) for n in range(1, 40)}
    assert all(
        len(made.first(job_id_of(str(n)), 9, without=lambda _: False)) == 4 for n in range(50)
    )


def test_newcomers_of_a_lower_rank_push_nobody_out():
    ranked = sorted(range(2, 9), key=lambda n: rank_key("even", JOB, node(n)))
    old = tuple(node(n) for n in ranked[-3:])

    same = mended(JOB, old, choice=choice(all=peers(*ranked)), gone=(), refusing=())

    assert same == old


def test_whoever_is_gone_is_replaced_and_stays_listed_if_there_is_nobody():
    old = (node(2), node(3), node(4))

    replaced = mended(JOB, old, choice=choice(a=peers(3, 4, 5)), gone=[node(2)], refusing=())
    kept = mended(JOB, old, choice=choice(a=peers(3, 4)), gone=[node(2)], refusing=())
    spared = mended(JOB, old[1:], choice=choice(a=peers(2, 3, 4)), gone=(), refusing=[node(2)])

    assert replaced == (node(3), node(4), node(5))
    assert kept == (node(3), node(4), node(2))
    assert spared == (node(3), node(4))
