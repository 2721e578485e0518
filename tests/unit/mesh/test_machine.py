"""The mesh of one node, composed: greetings, gossip, links, time, restarts, clones."""

import itertools

import msgspec
import pytest

from distributed_grid.kernel.mesh.events import (
    DialFailed,
    Heard,
    LinkDown,
    LinkUp,
    Measured,
    Now,
    Tick,
    Told,
)
from distributed_grid.kernel.mesh.liveness import LAN
from distributed_grid.kernel.mesh.liveness_rules import Change
from distributed_grid.kernel.mesh.replica_links import size_bytes
from distributed_grid.kernel.mesh.rules import RESTART_MS, MeshRules
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import (
    Delta,
    DeltaTaken,
    Goodbye,
    Refused,
    Welcome,
)
from distributed_grid.wire.mesh_records import (
    NodeLoad,
    NodeProfile,
    Offered,
    Position,
    Verdicts,
)
from tests.unit.mesh.machine_lab import Host, Lab

ENCODE = msgspec.msgpack.encode


@pytest.fixture
def lab() -> Lab:
    return Lab()


def greeted(host: Host, by: Host, **changes) -> str:
    hello = msgspec.structs.replace(by.mesh.hello(host.now), **changes)
    refused = host.mesh.greet(by.id, hello, host.now)
    return refused.reason if refused else ""


# Greetings


@pytest.mark.rows("S2-140", "S2-141")
def test_nobody_is_greeted_without_a_certificate_of_this_mesh(lab):
    founder, member = lab.mesh_of("founder", "member")
    stranger, other = *lab.add("stranger"), lab.found("other")

    assert greeted(founder, member) == ""
    assert greeted(founder, stranger) == "stranger"
    assert greeted(founder, stranger, mesh=founder.mesh.id) == "stranger"
    assert greeted(founder, stranger, chain=member.mesh.membership.chain) == "stranger"
    assert greeted(founder, other) == "other-mesh"
    assert greeted(founder, other, mesh=founder.mesh.id) == "other-mesh"
    assert greeted(stranger, member) == "stranger"


def test_who_has_no_version_in_common_is_told_so(lab):
    founder, member = lab.mesh_of("founder", "member")
    hello = msgspec.structs.replace(member.mesh.hello(lab.now), speaks=(9,))

    assert founder.mesh.greet(member.id, hello, lab.now) == Refused(
        reason="protocol", detail="spoken here: (1, 2)"
    )


def test_the_previous_version_is_still_spoken():
    lab = Lab()
    founder = lab.found("founder")
    (old,) = lab.add("old", rules=MeshRules(speaks=(1,)))
    old.join(founder)
    lab.run(8)

    assert founder.sees(old).health == old.sees(founder).health == "alive"
    assert founder.names("node.suspect") == old.names("node.suspect") == []
    assert founder.sees(old).cpu_milli_total == 4_000


def test_our_own_key_at_the_other_end_is_a_clone(lab):
    founder, _ = lab.mesh_of("founder", "member")

    assert greeted(founder, founder) == "clone"


def test_a_link_whose_certificate_ended_meanwhile_is_closed_at_once(lab):
    founder, member = lab.mesh_of("founder", "member")
    hello = msgspec.structs.replace(member.mesh.hello(lab.now), chain=())
    ready = founder.mesh.step(LinkUp(now=lab.now, peer=NODE, hello=hello))

    assert ready.hang_up == [(NODE, "stranger")]
    assert NODE not in founder.mesh.links


NODE = "5" * 64


# What is said


@pytest.mark.rows("S0-86", "S1-12", "S1-92", "S1-93")
def test_what_anybody_says_about_itself_reaches_all(lab):
    hosts = lab.mesh_of("a", "b", "c")
    hosts[1].say(
        profile=ENCODE(NodeProfile(node_class="edge", version="7", labels={"room": "attic"})),
        load=ENCODE(NodeLoad(cpu_milli_free=7, memory_bytes_free=8, load_milli=300)),
        offers=ENCODE(Offered(lines=("cpu 1",))),
    )
    lab.run(1)

    views = [host.sees(hosts[1]) for host in hosts]
    assert {(v.node_class, v.version, v.labels["room"]) for v in views} == {("edge", "7", "attic")}
    assert {(v.cpu_milli_free, v.memory_bytes_free, v.load_milli) for v in views} == {(7, 8, 300)}
    assert {v.offers for v in views} == {("cpu 1",)}
    assert hosts[0].mesh.said.position(hosts[1].id).coordinate


@pytest.mark.rows("S2-54")
def test_who_knows_one_comes_to_know_all(lab):
    _founder, one, _other = lab.mesh_of("founder", "one", "other")

    assert one.linked == {"founder", "other"}
    assert ("node.joined", "other") in one.names("node.joined")


def test_what_is_said_before_joining_is_told_afterwards(lab):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")
    guest.say(offers=ENCODE(Offered(lines=("gpu",))))
    guest.join(founder)
    lab.run(2)

    assert founder.sees(guest).offers == ("gpu",)


def test_outside_of_a_mesh_nothing_is_done(lab):
    (alone,) = lab.add("alone")
    events = (
        Tick(now=lab.now),
        LinkDown(now=lab.now, peer=NODE),
        Told(now=lab.now, peer=NODE, message=Goodbye(reason="idle")),
    )

    assert [alone.mesh.step(event) for event in events] == [alone.mesh.step(events[0])] * 3
    assert alone.mesh.wanted(()) == []
    assert alone.mesh.neighbours() == ()
    assert alone.mesh.name_of(NODE) == NODE[:8]


def test_a_message_without_a_link_is_not_listened_to(lab):
    founder, member, _third = lab.mesh_of("founder", "member", "third")
    lab.cut(founder, member, "test")
    before = founder.mesh.replica.entries_taken
    member.mesh.replica.publish("load", ENCODE(1), lab.now.mono_us)
    entry = member.mesh.replica.entry(member.id, "load")
    ready = founder.mesh.step(
        Told(now=lab.now, peer=member.id, message=Delta(number=1, entries=(entry,)))
    )
    heard = founder.mesh.step(Heard(now=lab.now, peer=member.id, datagram=b"junk"))

    assert (ready.messages, founder.mesh.replica.entries_taken) == ([], before)
    assert heard.hang_up == []


def test_a_message_over_the_link_of_who_no_longer_belongs_is_not_listened_to(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.mesh.roster.standings.pop(member.id)

    assert founder.told(member, Goodbye(reason="idle")).hang_up == []


def test_an_entry_of_a_stranger_does_not_enter(lab):
    founder, member = lab.mesh_of("founder", "member")
    stranger = lab.found("stranger")
    entry = stranger.mesh.replica.entry(stranger.id, "profile")
    forged = msgspec.structs.replace(
        entry, signature=stranger.key.sign(entry.signed_bytes(founder.mesh.id))
    )
    founder.told(member, Delta(number=99, entries=(forged,)))

    assert founder.mesh.roster.verify(forged)
    assert founder.mesh.replica.value(stranger.id, "profile") == b""


def test_the_chain_of_a_newcomer_counts_before_the_rest_of_what_it_says(lab):
    founder, member = lab.mesh_of("founder", "member")
    (guest,) = lab.add("guest")
    lab.unreachable |= {frozenset(("guest", "founder")), frozenset(("guest", "member"))}
    guest.join(founder)
    entries = [guest.mesh.replica.entry(guest.id, key) for key in ("profile", "chain")]
    founder.told(member, Delta(number=99, entries=tuple(entries)))

    assert founder.sees(guest).node_class == "workstation"
    assert ("node.joined", "guest") in founder.names("node.joined")


@pytest.mark.parametrize(
    "junk", [b"\xc1", b"\xa1\xff", b"\x91" * 5000, b"\x91\x81\xa4mesh\xa1\xff"]
)
@pytest.mark.parametrize(
    "key", ["profile", "load", "offers", "coordinate", "contact", "verdicts", "chain", "left"]
)
def test_junk_that_a_node_signs_about_itself_harms_nobody_else(lab, key, junk):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    member.mesh.replica.publish(key, junk, lab.mono_us)
    lab.run(2)

    assert founder.mesh.replica.value(member.id, key) in {junk, b""} or key == "chain"
    assert {each.name for each in founder.views()} >= {"founder", "third"}
    assert founder.sees(third).health == "alive"


def test_a_message_that_is_not_for_members_is_left_aside(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = founder.told(member, Welcome(chain=()))

    assert (ready.messages, ready.hang_up, ready.happened) == ([], [], [])


def test_who_says_goodbye_is_let_go(lab):
    founder, member = lab.mesh_of("founder", "member")

    assert founder.told(member, Goodbye(reason="restarting")).hang_up == [(member.id, "restarting")]
    assert member.linked == set()


def test_who_says_that_it_restarts_is_expected_back_until_it_is(lab):
    founder, member, idle = lab.mesh_of("founder", "member", "idle")
    founder.told(idle, Goodbye(reason="idle"))
    founder.told(member, Goodbye(reason="restarting"))
    assert founder.mesh.restarting == {member.id: lab.now.wall_ms + RESTART_MS}

    founder.mesh.step(LinkUp(now=lab.now, peer=member.id, hello=member.mesh.hello(lab.now)))
    assert founder.mesh.restarting == {}


def test_a_datagram_of_junk_ends_the_link(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = founder.step(Heard(now=lab.now, peer=member.id, datagram=b"\xff"))

    assert ready.hang_up == [(member.id, "malformed")]


# Health


@pytest.mark.rows("S0-45", "S0-69", "S2-147")
def test_who_falls_silent_is_suspected_then_dead_and_its_link_closed(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    lab.unreachable |= {frozenset(("member", "founder")), frozenset(("member", "third"))}
    lab.run(5)

    for host in (founder, third):
        assert host.names("node.suspect", "node.dead") == [
            ("node.suspect", "member"),
            ("node.dead", "member"),
        ]
        assert host.sees(member).health == "dead"
        assert lab.wall_ms - 5_000 < host.sees(member).since_ms < lab.wall_ms
        assert "member" not in host.linked


@pytest.mark.rows("S0-46", "S2-16")
def test_who_was_dead_is_dialled_until_it_comes_back_by_itself(lab):
    founder, member, _third = lab.mesh_of("founder", "member", "third")
    lab.unreachable |= {frozenset(("member", "founder")), frozenset(("member", "third"))}
    lab.run(5)
    lab.unreachable.clear()
    lab.run(12)

    assert founder.names("node.dead", "node.alive") == [
        ("node.dead", "member"),
        ("node.alive", "member"),
    ]
    assert member.linked == {"founder", "third"}


def test_who_is_seen_alive_was_told_of_even_if_it_leaves_in_the_same_moment(lab):
    founder, _member = lab.mesh_of("founder", "member")
    told = ("node.joined", "node.dead", "node.alive", "node.left")
    [visitor] = lab.add("visitor")
    visitor.join(founder)
    lab.dial(visitor, founder.id)
    lab._inbox.clear()  # It dies before it has said anything.
    visitor.down()
    lab.run(5)
    assert founder.sees(visitor).health == "dead"

    lab.dial(visitor.up(), founder.id)
    assert founder.sees(visitor).health == "alive"
    assert founder.names(*told) == [
        ("node.joined", "member"),
        ("node.joined", "visitor"),
        ("node.dead", "visitor"),
        ("node.alive", "visitor"),
    ]


def test_a_lost_link_is_told_as_a_path_that_is_gone_and_is_dialled_again(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.events.clear()
    lab.cut(founder, member, "timed out")
    lab.run(3)

    changes = [(each["path"], each["was"]) for each in founder.fields("node.path_changed")]
    assert changes == [("none", "direct"), ("direct", "none")]
    assert founder.fields("node.path_changed")[0]["why"] == "timed out"
    assert founder.linked == {"member"}


def test_a_path_that_was_never_known_is_not_missed(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.mesh.links[member.id].path = "none"
    founder.events.clear()
    founder.step(LinkDown(now=lab.now, peer=member.id))

    assert founder.fields("node.path_changed") == []
    assert founder.step(LinkDown(now=lab.now, peer=member.id)).happened == []


def test_what_traffic_shows_of_a_link_is_seen_and_a_change_is_told_once(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.events.clear()
    measured = Measured(
        now=lab.now, peer=member.id, path="relayed", address="relay", bandwidth_kbps=900
    )
    founder.step(measured)
    founder.step(measured)
    founder.step(Measured(now=lab.now, peer=member.id, path="relayed", address="relay"))

    seen = founder.sees(member)
    assert (seen.path, seen.address, seen.bandwidth_kbps) == ("relayed", "relay", 900)
    (change,) = founder.fields("node.path_changed")
    assert (change["path"], change["was"], change["address"]) == ("relayed", "direct", "relay")
    assert founder.step(Measured(now=lab.now, peer=NODE, path="direct")).happened == []


@pytest.mark.rows("S2-68")
def test_large_messages_time_the_line(lab):
    founder, member = lab.mesh_of("founder", "member")
    labels = {f"label-{number}-{'k' * 80}": "v" * 30 for number in range(60)}
    profile = NodeProfile(node_class="edge", version="1", labels=labels)
    offers = Offered(lines=tuple("o" * 100 + str(number) for number in range(60)))
    lab.unreachable.add(frozenset(("founder", "member")))
    founder.mesh.liveness.rtt_us = lambda peer: 1_000
    assert founder.sees(member).bandwidth_kbps is None
    founder.sent.clear()
    founder.say(profile=ENCODE(profile), offers=ENCODE(offers))
    while not (deltas := [m for _, m in founder.sent if isinstance(m, Delta)]):
        lab.run(0.05)
    lab.pass_ms(100)
    founder.told(member, DeltaTaken(number=deltas[0].number))

    sent_bytes = sum(map(size_bytes, deltas[0].entries))
    assert founder.sees(member).bandwidth_kbps == sent_bytes * 8_000 // 99_000


def test_the_silence_of_who_said_goodbye_is_no_news(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.do(member.mesh.membership.leave(lab.now))
    lab.run(0.5)
    founder.events.clear()
    verdict = Change(node=member.id, health="dead", why="silent", since_us=0, was="suspect")
    founder.mesh.liveness.changes = lambda: [verdict]

    assert founder.tick().happened == []


@pytest.mark.rows("S2-16", "S2-147")
def test_in_a_large_mesh_each_is_watched_by_some_and_all_hear_of_a_death():
    lab = Lab()
    rules = MeshRules(liveness=msgspec.structs.replace(LAN, everyone=4))
    hosts = lab.mesh_of(*"abcdefg", rules=rules)
    hosts[3].down()
    lab.run(6)

    others = [host for host in hosts if host.is_up]
    assert {host.sees(hosts[3]).health for host in others} == {"dead"}
    assert {each.health for host in others for each in host.views() if each.name != "d"} == {
        "alive"
    }


# Links


def test_nobody_is_dialled_twice_at_once_and_failures_wait_longer_and_longer(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.unreachable.add(frozenset(("founder", "member")))
    lab.cut(founder, member, "test")
    dials = []
    start_us = lab.mono_us
    while lab.mono_us < start_us + 60_000_000:
        before = len(founder.steps)
        lab.run(0.05)
        dials += [lab.mono_us for step in founder.steps[before:] for _ in step.dial]

    gaps = [later - earlier for earlier, later in itertools.pairwise(dials)]
    assert 4 <= len(dials) <= 12
    assert gaps[-1] > 5 * gaps[0]


def test_who_refuses_us_is_noted_once_and_asked_rarely(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.cut(founder, member, "test")
    refused = DialFailed(now=lab.now, peer=founder.id, why="busy", is_refused=True)
    member.step(refused)
    member.step(refused)

    assert [each["reason"] for each in member.fields("mesh.refused")] == ["busy"]
    assert member.sees(founder).note == "refuses this node: busy"
    assert not any(member.tick().dial for _ in range(10))
    lab.run(61)
    assert member.linked == {"founder"}
    assert member.sees(founder).note == ""


@pytest.mark.rows("S0-44")
def test_a_link_that_nobody_needs_is_let_go_after_a_while():
    lab = Lab()
    founder, member, third = lab.mesh_of(
        "founder", "member", "third", rules=MeshRules(idle_us=20_000_000)
    )
    for host in (founder, member):
        host.mesh.neighbours = lambda: (third.id,)
        host.mesh.liveness.wanted_links = list
    lab.run(18)
    assert founder.linked == {"member", "third"}

    lab.run(5)
    hosts = founder, member
    said = [message for host in hosts for _, message in host.sent if isinstance(message, Goodbye)]
    assert set(said) == {Goodbye(reason="idle")}
    assert founder.linked == member.linked == {"third"}


@pytest.mark.rows("S2-132")
def test_there_are_no_more_links_than_the_owner_wants():
    lab = Lab()
    rules = MeshRules(connections_max=2)
    hosts = lab.mesh_of("a", "b", "c", "d", "e", "f", rules=rules)
    lab.run(10)

    assert max(len(host.linked) for host in hosts) <= 2
    assert {len(host.members) for host in hosts} == {6}
    assert {each.health for host in hosts for each in host.views()} == {"alive"}
    reasons = {m.reason for host in hosts for _, m in host.sent if isinstance(m, Goodbye)}
    assert reasons == {"full"}


def test_with_full_topology_everyone_is_linked_with_everyone():
    lab = Lab()
    hosts = lab.mesh_of("a", "b", "c", "d", rules=MeshRules(topology="full"))

    assert [len(host.linked) for host in hosts] == [3, 3, 3, 3]


def test_an_address_that_names_another_node_is_not_dialled(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.say(contact=member.mesh.reach_value(Contact(node=NODE, addresses=("evil:1",))))
    lab.run(1)

    assert founder.mesh.contact(member.id) is None


# Figures


def test_a_position_is_told_when_it_moves(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.run(6)

    position = member.mesh.said.position(founder.id)
    assert isinstance(position, Position)
    assert position.latency_us is None or position.latency_us >= 0
    assert founder.sees(member).estimated_us is not None


def test_rounds_are_counted(lab):
    founder, _ = lab.mesh_of("founder", "member")
    before = founder.mesh.rounds
    lab.run(2)

    assert founder.mesh.rounds == before + 10


def test_now_is_two_clocks():
    assert Now(1, 2) == Now(wall_ms=1, mono_us=2)


def test_only_what_counts_for_jobs_makes_a_turn(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.run(5)

    def turns(act):
        before = (founder.mesh.turns, member.mesh.turns)
        act()
        lab.run(1)
        after = (founder.mesh.turns, member.mesh.turns)
        return tuple(now > was for was, now in zip(before, after, strict=True))

    load = ENCODE(NodeLoad(cpu_milli_free=7, memory_bytes_free=7))
    judged = ENCODE(Verdicts(of={founder.id: ("verified", "")}))
    assert turns(lambda: None) == (False, False)
    assert turns(lambda: member.say(load=load)) == (True, True)
    assert turns(lambda: member.say(load=load)) == (False, False)  # The same again.
    assert turns(lambda: member.say(verdicts=judged)) == (False, False)
    assert turns(lambda: founder.told(member, Goodbye(reason="restarting")))[0]
