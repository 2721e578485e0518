"""Machines that nobody kicked and nobody renewed; chains that come late or twice."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.events import LinkUp, MeshReady
from distributed_grid.model.membership import CERTIFICATE_MS, GRACE_MS, RENEW_MS
from distributed_grid.wire.mesh import Delta
from tests.unit.mesh.machine_lab import DAY_MS, WALL_MS, Lab
from tests.unit.mesh.replica_lab import contents

END_MS = WALL_MS + CERTIFICATE_MS


@pytest.fixture
def lab() -> Lab:
    return Lab()


def until(lab, wall_ms):
    """Time passes in steps, so that who is up can renew."""
    while lab.wall_ms < wall_ms:
        lab.pass_ms(min(9 * DAY_MS, wall_ms - lab.wall_ms))
        lab.run(2)


def test_a_dead_machine_nobody_kicked_is_forgotten_and_newcomers_agree_meanwhile(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    third.down()
    until(lab, END_MS + 9 * DAY_MS)
    (guest,) = lab.add("guest")
    guest.join(founder)
    lab.run(5)

    assert founder.members == guest.members == {"founder", "member", "guest"}
    assert contents(guest.mesh.replica).keys() == contents(founder.mesh.replica).keys()
    assert (third.id, "chain") in contents(guest.mesh.replica)
    assert guest.sees(third).why == "its certificate no longer holds"
    assert ("node.joined", "third") not in guest.names("node.joined")

    until(lab, END_MS + RENEW_MS + GRACE_MS + DAY_MS)
    lab.run(61)
    for host in (founder, member, guest):
        assert third.id not in host.mesh.replica.nodes()
        assert third.id not in [view.id for view in host.views()]
        assert host.members == {"founder", "member", "guest"}


def test_who_is_to_be_forgotten_does_not_come_back_from_the_disk(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    third.down()
    until(lab, END_MS + RENEW_MS + GRACE_MS - DAY_MS)
    lab.run(61)
    assert third.id in founder.mesh.replica.nodes()
    founder.down()
    lab.pass_ms(2 * DAY_MS)
    founder.up()

    assert set(founder.mesh.replica.nodes()) == {founder.id, member.id}


def test_who_was_forgotten_comes_back_when_it_is_renewed(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.down()
    until(lab, END_MS + RENEW_MS + GRACE_MS + DAY_MS)
    lab.run(61)
    assert founder.members == {"founder"}
    member.up()
    lab.run(5)

    assert founder.members == member.members == {"founder", "member"}


def test_this_node_never_forgets_itself(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.down()
    until(lab, END_MS + RENEW_MS + GRACE_MS + DAY_MS)
    lab.run(61)

    assert member.mesh.replica.nodes() == [member.id]
    assert member.mesh.membership.chain
    founder.up()
    founder.mesh.membership.hold_authority(lab.keys.make("authority of founder"))
    lab.run(65)
    assert member.members == {"founder", "member"}


@pytest.mark.parametrize("is_reversed", [False, True])
def test_an_older_chain_that_comes_late_replaces_no_newer_one(lab, is_reversed):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    old = member.mesh.replica.entry(member.id, "chain")
    hello = member.mesh.hello(lab.now)
    ready = MeshReady()
    member.mesh.membership.rename("bench", lab.now, ready)
    member.do(ready)
    lab.run(2)
    new = member.mesh.replica.entry(member.id, "chain")
    assert founder.sees(member).name == "bench"

    both = (old, new)[:: -1 if is_reversed else 1]
    for entries in ((old,), both):
        founder.told(third, Delta(number=99, entries=entries))
        assert founder.sees(member).name == "bench"
    founder.step(LinkUp(now=lab.now, peer=member.id, hello=hello))
    assert founder.sees(member).name == "bench"
    assert member.id in founder.mesh.links

    forged = msgspec.structs.replace(hello, chain=third.mesh.membership.chain)
    ready = founder.mesh.step(LinkUp(now=lab.now, peer=member.id, hello=forged))
    assert ready.hang_up == [(member.id, "stranger")]


def test_of_two_chains_in_one_message_the_later_counts_and_the_rest_enters_with_it(lab):
    founder, third = lab.mesh_of("founder", "third")
    (guest,) = lab.add("guest")
    lab.unreachable |= {frozenset(("guest", name)) for name in ("founder", "third")}
    guest.join(founder)
    own = guest.mesh.replica
    old = own.entry(guest.id, "chain")
    own.begin_generation(lab.mono_us)
    own.round([], lab.mono_us)  # Says everything again.
    new, load = own.entry(guest.id, "chain"), own.entry(guest.id, "load")
    assert new.generation > old.generation
    founder.told(third, Delta(number=98, entries=(load, new, old)))

    assert founder.sees(guest).cpu_milli_free == 1_000
    assert founder.mesh.replica.entry(guest.id, "chain") == new
    assert founder.mesh.replica.entry(guest.id, "load") == load
