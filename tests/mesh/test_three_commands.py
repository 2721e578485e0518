"""A mesh in three commands, and what people do with it afterwards: real agents in one network."""

import json
import re
import subprocess

import pytest

from distributed_grid.wire.api import Event
from distributed_grid.wire.mesh_api import NodeView
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow

GPUS = "pretend: {cpus: 8, memory: 64GiB, gpus: [{model: H100, count: 2}]}\n"


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        desk = made.member("desk").up()
        made.member("attic").up()
        made.member("farm", config=GPUS).up()
        text = desk.ticket("--uses", "100")
        (desk.root / "ticket").write_text(text)
        made["attic"].says("join", text)
        made["farm"].says("join", "-", stdin=f"{text}\n")
        made.settled(made.members)
        yield made


@pytest.fixture
def desk(lab):
    return lab["desk"]


@pytest.fixture
def attic(lab):
    return lab["attic"]


def newcomer(lab: MeshLab, name: str) -> Member:
    """One more member, which a test may do anything to."""
    made = lab.member(name).up("--join", f"@{lab['desk'].root / 'ticket'}")
    awaited(lambda: made.health().get("desk") == "alive", made.health)
    return made


def sees(member: Member, name: str, health: str) -> None:
    awaited(lambda: member.health().get(name) == health, member.health)


@pytest.mark.rows("S0-86", "S1-12", "S1-93", "S2-149")
def test_each_of_three_sees_all_three_with_every_column(lab, desk, attic):
    def reached() -> dict[str, NodeView]:
        """Once each link was looked at: after `grid join` it may be a new one."""
        nodes = attic.nodes()
        others = [nodes[name] for name in ("desk", "farm")]
        return nodes if all(each.latency_us and each.address for each in others) else {}

    of_attic, of_desk = awaited(reached, attic.nodes), desk.nodes()

    assert set(of_attic) == set(of_desk) == {"desk", "attic", "farm"} | set(of_desk)
    assert of_desk["attic"].roles == ("member",)
    assert of_attic["desk"].roles == ("admin",)
    for name in ("desk", "attic", "farm"):
        here, there = of_desk[name], of_attic[name]
        assert (here.node_class, here.version) == (there.node_class, there.version)
        assert here.node_class
        assert here.version
        assert here.cpu_milli_total == there.cpu_milli_total > 0
        assert here.memory_bytes_total == there.memory_bytes_total > 0
        assert here.storage_bytes_total == there.storage_bytes_total > 0
        assert there.health == "alive"
    assert of_attic["attic"].path == "self"
    for other in ("desk", "farm"):
        assert of_attic[other].path == "direct"
        assert re.fullmatch(r"(127\.0\.0\.1|\[::1\]):\d+", of_attic[other].address)
        assert 0 < of_attic[other].latency_us < 1_000_000


def test_the_table_has_a_row_for_each(attic):
    table = attic.says("nodes")
    heads = ("name", "class", "health", "cores", "memory", "GPUs", "load", "path", "latency")

    for head in (*heads, "version", "checked"):
        assert head in table
    assert re.search(r"attic \* .*alive.* self ", table)
    assert re.search(r"desk .*admin.*alive.* direct \S+:\d+ .* ms ", table)


def test_the_gpus_of_one_are_seen_by_another_as_pretended(attic):
    farm = attic.nodes()["farm"]

    assert (farm.gpus_total, farm.gpu_models) == (2, ("H100", "H100"))
    assert farm.gpus_free_milli == 2_000
    assert farm.cpu_milli_total == 8_000
    assert farm.verification == "pretended"
    assert "2/2 H100" in attic.says("nodes")


def test_what_a_node_claims_is_checked_by_another(lab, desk, attic):
    """Three tries of three quarters of a minute, where cores have other things to do; else one.

    Others may be asked in between, one at a time. Whose turn it is to ask is decided by ids, and
    other tests may have brought in more members.
    """

    def verdicts() -> list[Event]:
        told = [event for member in lab.members for event in member.events("mesh.verified")]
        return [event for event in told if event.fields["name"] in {"desk", "attic"}]

    def story() -> list[object]:
        return [(member.name, member.health(), member.events()) for member in lab.members]

    first = awaited(verdicts, story, within_s=360)[0].fields
    about, verdict = first["name"], first["verification"]

    assert verdict == "verified" or (verdict == "claimed" and first["what"])
    for member in (desk, attic):

        def is_told(member: Member = member) -> bool:
            seen = member.nodes()[about]
            return seen.verification == "verified" or bool(seen.verification_why)

        awaited(is_told, member.nodes)


def test_who_leaves_is_seen_as_left_and_may_come_back(lab, desk):
    guest = newcomer(lab, "guest")

    assert "guest has left mesh" in guest.says("leave")
    sees(desk, "guest", "left")
    assert guest.says("nodes", "--json").count('"name"') == 1
    assert ("node.left", "guest") in desk.told("node.left")
    assert ("node.dead", "guest") not in desk.told("node.dead")
    guest.says("join", f"@{desk.root / 'ticket'}")
    sees(desk, "guest", "alive")
    sees(guest, "desk", "alive")
    sees(lab["attic"], "guest", "alive")


def test_who_was_kicked_is_out_everywhere_and_is_told_what_to_do(lab, desk, attic):
    rogue = newcomer(lab, "rogue")
    sees(attic, "rogue", "alive")

    assert "is revoked" in desk.says("kick", "rogue")
    for member in (desk, attic, lab["farm"]):
        awaited(lambda member=member: "rogue" not in member.health(), member.health)
    awaited(lambda: ("node.left", "rogue") in attic.told("node.left"), attic.events)
    awaited(lambda: rogue.nodes()["rogue"].note, rogue.nodes)
    assert "revoked" in rogue.nodes()["rogue"].note
    again = rogue("join", f"@{desk.root / 'ticket'}")
    assert again.returncode == 5
    assert "removed from the mesh" in again.stderr
    assert "grid up --new-identity" in again.stderr
    rogue.down()
    rogue.up("--new-identity")  # As the message says, and with a ticket.
    rogue.says("join", f"@{desk.root / 'ticket'}")
    awaited(lambda: any(n == "rogue" and h == "alive" for n, h in seen(attic)), attic.health)


def seen(member: Member) -> list[tuple[str, str]]:
    """All of them: an earlier node may have had the same name."""
    nodes = json.loads(member.says("nodes", "--json"))["nodes"]
    return [(node["name"], node["health"]) for node in nodes]


def test_another_name_is_seen_by_others(lab, desk, attic):
    shed = newcomer(lab, "shed")
    assert "is called barn" in shed.says("rename", "barn")

    for member in (desk, attic, shed):
        sees(member, "barn", "alive")
        assert "shed" not in member.health()


def test_joining_twice_is_harmless(lab, desk, attic):
    before = desk.nodes()["attic"].id
    said = attic.says("join", f"@{desk.root / 'ticket'}")

    assert "attic was in mesh" in said
    assert desk.nodes()["attic"].id == before
    assert list(desk.health()).count("attic") == 1
    assert desk.nodes()["attic"].health == "alive"


def test_the_load_of_one_is_seen_elsewhere(lab, desk, attic):
    was_free = attic.nodes()["desk"].cpu_milli_free
    job = desk.says("run", "--detach", "--cpus", "1", "--", "sleep", "600").strip()
    awaited(lambda: attic.nodes()["desk"].jobs_running == 1, attic.nodes)

    assert attic.nodes()["desk"].cpu_milli_free == was_free - 1_000
    desk.says("cancel", job)
    awaited(lambda: attic.nodes()["desk"].jobs_running == 0, attic.nodes)
    awaited(lambda: attic.nodes()["desk"].cpu_milli_free == was_free, attic.nodes)


def test_events_tell_of_coming_going_dying_changing(lab, desk):
    following = desk.start("events", "-f")
    guest = newcomer(lab, "visitor")
    sees(desk, "visitor", "alive")
    guest.kill()
    sees(desk, "visitor", "dead")
    guest.up()
    sees(desk, "visitor", "alive")
    guest.says("leave")
    sees(desk, "visitor", "left")
    wanted = ["joined", "path_changed", "updated", "dead", "alive", "left"]
    awaited(lambda: {name for name, who in desk.told() if who == "visitor"}
            >= {f"node.{word}" for word in wanted}, desk.told)  # fmt: skip
    following.terminate()
    lines = following.communicate(timeout=30)[0].splitlines()

    for word in wanted:
        assert [line for line in lines if f"node.{word} " in line and " visitor " in f"{line} "]


def test_the_figures_of_the_mesh_are_among_the_metrics(desk):
    text = desk.http("GET", "/metrics")[1].decode()

    assert int(re.search(r'grid_mesh_nodes{health="alive"} (\d+)', text)[1]) >= 3
    assert int(re.search(r'grid_mesh_connections{path="direct"} (\d+)', text)[1]) >= 2
    for name in ("gossip_rounds", "gossip_entries_taken", "heartbeats_received"):
        assert desk.figure(f"grid_mesh_{name}_total") > 0
    for name in ("sent_bytes_total", "staleness_us", "round_trip_us_p50", "suspicions_total"):
        assert f"grid_mesh_{name}" in text


# --- Where it listens


def udp_ports(member: Member) -> set[str]:
    """`address:port` of every UDP socket in its network, as the kernel says them."""
    done = subprocess.run(
        member.net.command(["cat", "/proc/net/udp", "/proc/net/udp6"]),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[1] for words in lines if ":" in words[0]}


def test_before_the_first_ticket_nothing_listens_and_then_one_port_does():
    with MeshLab.on_loopback() as lab:
        alone = lab.member("alone").up()

        assert udp_ports(alone) == set()
        assert "this node is alone" in alone("nodes").stderr
        alone.ticket()
        assert udp_ports(alone)
        before = udp_ports(alone)
        alone.down()
        alone.up()
        awaited(lambda: udp_ports(alone))
        # IPv4's is kept, for firewalls and for the contacts that others remember.
        assert {port for port in before if len(port) == 13} <= udp_ports(alone)
        assert "has left mesh" in alone.says("leave", "--force")
        assert udp_ports(alone) == set()


@pytest.mark.parametrize("address", ["127.0.0.1:4711", "[::1]:4711"])
def test_only_the_address_that_was_asked_for_is_listened_on_and_told(address):
    with MeshLab.on_loopback() as lab:
        first = lab.member("first").up("--listen", address)
        text = first.ticket()

        host = "0100007F" if "." in address else "0" * 24 + "01000000"
        assert udp_ports(first) == {f"{host}:{4711:04X}"}
        second = lab.member("second").up("--listen", address.replace("4711", "0"))
        second.says("join", text)
        awaited(lambda: second.nodes()["first"].address == address, second.nodes)
        assert len(udp_ports(second)) == 2


@pytest.mark.rows("S2-148")
def test_an_agent_joins_from_its_environment_alone(lab, desk):
    swarm = lab.member("swarm")
    text = (desk.root / "ticket").read_text()
    swarm.env |= {"GRID_NODE_NAME": "swarm"}
    done = swarm("up", "--detach", env={"GRID_TICKET": text})

    assert done.returncode == 0, done.stderr
    assert "swarm joined mesh" in done.stdout
    sees(desk, "swarm", "alive")
