"""Each word about places, with a node that would get the job without it."""

import click
import msgspec
import pytest

from distributed_grid.cli.placing_options import placing_options
from distributed_grid.cli.placing_words import placing_wishes, told_of
from distributed_grid.client.specification import specification
from distributed_grid.errors import NeverFits
from distributed_grid.kernel.across.company import unfit
from distributed_grid.kernel.across.nearness import MANIFESTS_MAX, NODES_MAX, Files, wished
from distributed_grid.kernel.explaining import explain
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import NOWHERE, Array, Shipment, Where, Work
from distributed_grid.model.node import Network, Power
from distributed_grid.model.node_class import DataCenter, Laptop
from distributed_grid.wire.across import NotGranted, Withdrawn
from tests.across_world import Room
from tests.node_world import a_job, fill
from tests.unit.across.filling import occupy

IN_IMAGE = Work(argv=("true",), cwd="/", image="box")
FILES = Shipment(manifest="f" * 64, size_bytes=1, files=1)


def told(*options: str) -> dict:
    """What the options of `grid run` mean for a job."""

    @click.command()
    @placing_options
    def command(**given):
        given.pop("wait_safe")
        return specification(["true"], placing_wishes(told_of(given)))

    spec = command.main(list(options), standalone_mode=False)
    names = ("require", "avoid", "prefer", "policy", "locality", "battery_safe")
    return {name: getattr(spec, name) for name in names}


def winner(room: Room, **words) -> str:
    """Where a job of the first node runs, which is full itself."""
    fill(room[0])
    room.look()
    job = a_job("job", **words)
    room[0].submit(job)
    room.settle()
    return room[0].job(job).live_attempts[0].node


def near(latency_us: int) -> dict:
    return {"network": Network(latency_us=latency_us, reachability="direct")}


# The words, what is said of the node that is wanted, and of that which would get the job else.
SAID = [
    (("--node", "WANTED"), {}, {}),
    (("--on-class", "laptop"), {"node_class": Laptop()}, {}),
    (("--label", "room=attic"), {"labels": {"room": "attic"}}, {"labels": {"room": "cellar"}}),
    (("--avoid", "OTHER"), {}, {}),
    (("--avoid", "class:datacenter"), {}, {"node_class": DataCenter()}),
    (("--avoid", "room=attic"), {}, {"labels": {"room": "attic"}}),
    (("--avoid", "job:train"), {}, {"running": ("train",)}),
    (("--policy", "CostOptimized"), {}, {"price_micro_per_hour": 1}),
    (("--policy", "PowerAware"), {"power": Power(idle_mw=1_000, max_mw=2_000)},
     {"power": Power(idle_mw=1_000, max_mw=90_000)}),
    (("--policy", "LocalityAware"), near(100), near(90_000)),
    (("--policy", "RoundRobin"), {}, {"jobs": 1}),
    (("--max-latency", "20ms"), near(19_000), near(21_000)),
    (("--no-battery",), {}, {"power": Power(on_battery=True, battery_percent=90)}),
    (("--locality", "rack"), {"labels": {"rack": "r7"}}, {"labels": {"rack": "r8"}}),
    (("--locality", "zone"), {"labels": {"zone": "z1"}}, {}),
    (("--locality", "region"), {"labels": {"region": "here"}}, {"labels": {"region": "there"}}),
]  # fmt: skip


@pytest.mark.rows("S2-81", "S0-96")
@pytest.mark.parametrize(("words", "of_wanted", "of_other"), SAID)
def test_a_word_moves_the_job_to_the_node_that_is_meant(words, of_wanted, of_other):
    def room() -> Room:
        made = Room(3)
        made[0].facts = {"labels": {"rack": "r7", "zone": "z1", "region": "here"}}
        return made

    usual = winner(room())
    (wanted,) = {"node-2", "node-3"} - {usual}
    names = {"WANTED": wanted, "OTHER": usual}
    for options, expected in (((), usual), (words, wanted)):
        made = room()
        for node in made.nodes[1:]:
            node.facts = of_wanted if node.name == wanted else of_other
        assert winner(made, **told(*(names.get(word, word) for word in options))) == expected


@pytest.mark.parametrize(
    ("option", "is_wanted_busy"), [("--spread", False), ("--binpack", True), ("", None)]
)
def test_spread_goes_where_little_runs_and_binpack_where_much_does(option, is_wanted_busy):
    usual = winner(Room(3))
    room = Room(3)
    for node in room.nodes[1:]:
        if (node.name != usual) == bool(is_wanted_busy):
            occupy(node, 2)
    room.settle()
    if option:
        assert winner(room, **told(option)) != usual
    else:
        assert winner(room) == usual


# Images


def test_an_image_runs_only_where_containers_are_run():
    room = Room(3)
    room[2].facts = {"features": ("containers",)}
    room.look()
    plain, image = a_job("plain"), a_job("image", work=IN_IMAGE)
    for job in (plain, image):
        room[0].submit(job)
    room.settle()

    assert [room[0].job(one).live_attempts[0].node for one in (plain, image)] == [
        "node-1",
        "node-3",
    ]


def test_a_node_with_containers_keeps_its_image_at_home():
    room = Room(2)
    for node in room.nodes:
        node.facts = {"features": ("containers",)}
    room.look()
    room[0].submit(job := a_job("job", work=IN_IMAGE))
    room.settle()

    assert room[0].job(job).live_attempts[0].node == "node-1"


def test_that_a_plain_job_could_run_somewhere_says_nothing_of_an_image():
    room, there = Room(2), Where(nodes=("node-2",))
    room[0].submit(a_job("plain", require=there))

    with pytest.raises(NeverFits, match="node node-2, podman or docker"):
        room[0].submit(a_job("image", work=IN_IMAGE, require=there))


def test_an_image_that_nobody_can_run_is_refused_or_waits_and_says_what_lacks():
    room = Room(2)
    with pytest.raises(NeverFits, match="as job 'job' wants it: podman or docker"):
        room[0].submit(a_job("job", work=IN_IMAGE))
    room[0].submit(patient := a_job("patient", work=IN_IMAGE, wait_for_capacity=True))
    room.settle()
    why = explain(room[0].node.coordinator, room[0].job(patient), room[0].now_ms)
    assert why.summary.endswith("none that is here now is as it wants it (podman or docker)")

    room[1].facts = {"features": ("containers",)}  # It was installed, and the agent started again.
    room.look()
    assert room[0].job(patient).live_attempts[0].node == "node-2"


# Files


@pytest.mark.rows("S0-56", "S0-73", "S0-96")
def test_near_its_files_is_where_they_were_sent_before():
    usual = winner(Room(3), ship=FILES)
    (wanted,) = {"node-2", "node-3"} - {usual}
    for locality, expected in (("", usual), ("data", wanted)):
        room = Room(3)
        before = a_job("before", ship=FILES, require=Where(nodes=(wanted,)))
        room[0].submit(before)
        room.settle()
        room.by_id(room[0].job(before).live_attempts[0].host).drain()
        room.settle()
        assert winner(room, ship=FILES, locality=locality) == expected


def test_near_its_files_is_at_home_first_and_where_it_has_begun_before():
    room = Room(3)
    job = a_job("job", locality="data", retries=1)
    room[0].submit(job)
    room.settle()
    assert room[0].job(job).live_attempts[0].host == ""

    room = Room(3)
    fill(room[0])
    room.look()
    room[0].submit(job)
    room.settle()
    (first,) = room[0].job(job).live_attempts
    room.by_id(first.host).keeper.end_one(first.id, 1)
    room.settle()
    assert room[0].job(job).live_attempts[0].node == first.node


def test_a_wish_that_nobody_understands_holds_nobody_up():
    room = Room(2)
    job = a_job("job", locality="zone")
    room[0].submit(job)
    room.settle()
    assert room[0].job(job).live_attempts[0].host == ""
    assert wished(job, None, ()) == job


def test_who_has_which_files_is_remembered_of_the_newest():
    files = Files()
    files.came(a_job("none"), NodeId("a"))
    for number in range(NODES_MAX + 1):
        files.came(a_job("job", ship=FILES), NodeId(str(number)))
    assert set(files.at(a_job("other", ship=FILES))) == {str(n) for n in range(1, NODES_MAX + 1)}
    for number in range(MANIFESTS_MAX):
        other = msgspec.structs.replace(FILES, manifest=str(number))
        files.came(a_job("more", ship=other), NodeId("a"))
    assert list(files.at(a_job("job", ship=FILES))) == []
    assert list(files.at(a_job("job"))) == []


# Company


@pytest.mark.parametrize("by", [0, 1])
def test_what_runs_counts_before_anybody_has_told_it(by):
    """The one who starts it knows at once; of what others started its node knows."""
    usual = winner(Room(3))
    number = int(usual[-1]) - 1
    room = Room(3)
    fill(room[0])
    room.look()
    train = a_job("train", require=Where(nodes=(usual,)))
    room[0 if by == 0 else number].submit(train)
    room.settle()
    job = a_job("job", avoid=Where(jobs=("train",)))
    room[0].submit(job)
    room.settle()
    room.pass_time(6_000)
    (attempt,) = room[0].job(job).live_attempts
    assert attempt.node not in (usual, "node-1")
    assert bool(room[number].said(NotGranted)) == bool(by)


def test_what_was_started_there_counts_until_the_node_has_told_it():
    usual = winner(Room(3))
    room = Room(3)
    fill(room[0])
    there = next(node for node in room.nodes if node.name == usual)
    room[0].submit(a_job("train", require=Where(nodes=(usual,))))
    room.settle()
    there.facts = {"running": ()}
    room.look()
    job = a_job("job", avoid=Where(jobs=("train",)))
    room[0].submit(job)
    room.settle()

    assert room[0].job(job).live_attempts[0].node not in (usual, "node-1")
    assert there.said(NotGranted) == []  # It was not even asked.


def test_nobody_keeps_away_from_himself():
    room = Room(2)
    fill(room[0], 3)
    room.look()
    job = a_job("job", array=Array(start=0, stop=8), avoid=Where(jobs=("job",)))
    room[0].submit(job)
    room.settle()

    assert len(room[0].job(job).live_attempts) > 2


def test_the_own_node_is_avoided_and_wanted_for_what_runs_there():
    room = Room(2)
    room[0].submit(a_job("train"))
    room.settle()
    far = a_job("far", avoid=Where(jobs=("train",)))
    close = a_job("close", require=Where(jobs=("train",)))
    room[0].submit(far, close)
    room.settle()
    assert room[0].job(far).live_attempts[0].node == "node-2"
    assert room[0].job(close).live_attempts[0].node == "node-1"


def test_who_avoids_what_runs_everywhere_waits_until_it_is_over():
    room = Room(1)
    train, other = a_job("train"), a_job("other", avoid=Where(jobs=("train",)))
    room[0].submit(train)
    room.settle()
    room[0].submit(other)
    room.settle()
    assert room[0].state(other) == "waiting"
    room[0].drain()
    room.look()
    room.settle()
    assert room[0].state(other) in ("running", "succeeded")
    with pytest.raises(NeverFits):
        room[0].submit(a_job("never", avoid=Where(jobs=("x",), nodes=("node-1",))))


def test_a_job_wants_to_be_near_another_that_runs_elsewhere():
    room = Room(3)
    fill(room[0])
    room.look()
    usual = winner(Room(3))
    (there,) = {"node-2", "node-3"} - {usual}
    room[0].submit(a_job("train", require=Where(nodes=(there,))))
    room.settle()
    job = a_job("job", require=Where(jobs=("train",)))
    room[0].submit(job)
    room.settle()
    assert room[0].job(job).live_attempts[0].node == there


def test_room_that_comes_where_somebody_runs_by_now_is_given_back():
    room = Room(2)
    home, host = room.nodes
    fill(home)
    occupy(host)
    room.look()
    job = a_job("job", avoid=Where(jobs=("train",)), priority="low")
    home.submit(job)
    room.settle()
    train = a_job("train", require=Where(nodes=(host.name,)), priority="high")
    home.submit(train)
    room.settle()
    host.drain()  # Room for both.
    room.settle()
    assert home.job(train).live_attempts[0].node == host.name
    assert home.state(job) == "waiting"
    assert job.id in {word.job for word in home.said(Withdrawn)}


def test_company_in_words():
    assert unfit(a_job("x", avoid=Where(jobs=("a", "b"))), {"b", "c"}) == (
        "it is to avoid what runs here: b",
    )
    assert unfit(a_job("x", require=Where(jobs=("a",))), {"b"}) == ("none of these runs here: a",)
    assert unfit(a_job("x", require=Where(jobs=("a",)), avoid=NOWHERE), {"a"}) == ()
