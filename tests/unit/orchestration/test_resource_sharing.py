"""The manager, the protocol and the nouns of seed 003 over a canned agent."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from distributed_grid.bootstrap import NotBrought
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.config.cluster_sections import NodeConfig, ThresholdsConfig
from distributed_grid.errors import BadValue, NotFound
from distributed_grid.model.lending import Offer
from distributed_grid.orchestration.entities import type_named
from distributed_grid.orchestration.failures import NotInitialized, NotJoined, NotStarted
from distributed_grid.orchestration.resource_sharing import (
    ResourceOffer,
    ResourceRequest,
    ResourceSharingManager,
    ResourceSharingProtocol,
    ResourceType,
)
from distributed_grid.wire.sharing import AllocationView, OwnerUse
from tests.agent_stand_in import STARTED_MS, CannedAgent, a_view, serving
from tests.mesh_stand_in import a_node

GIB = 1 << 30


def exists(folder: str) -> bool:
    return Path(folder).exists()


@pytest.fixture
def agent(tmp_path):
    canned = CannedAgent()
    with serving(canned, tmp_path / "agent.sock"):
        yield canned


@pytest.fixture
def manager(tmp_path, agent):
    return ResourceSharingManager(data_dir=tmp_path)


def an_offer(kind: str, amount: int, **fields) -> Offer:
    return Offer(kind=kind, amount=amount, total=8 * GIB if kind == "memory" else 8_000,
                 made_ms=STARTED_MS, expires_ms=STARTED_MS + 1_000, **fields)  # fmt: skip


OFFERS = (
    an_offer("cpu", 4_000),
    an_offer("memory", 4 * GIB),
    an_offer("gpu", 1_000, device="GPU-1", memory_free_bytes=8 * GIB, memory_total_bytes=GIB << 3),
    an_offer("tpu", 2_000),
)


@pytest.mark.rows("S3-50")
def test_types_have_the_values_of_the_seed_in_any_case():
    assert [one.value for one in ResourceType] == ["gpu", "memory", "cpu", "disk"]
    assert ResourceType("GPU") is ResourceType.GPU
    assert ResourceType("storage") is ResourceType.DISK
    assert ResourceType("cores") is ResourceType.CPU
    with pytest.raises(ValueError, match="tpu"):
        ResourceType("tpu")


@pytest.mark.rows("S3-103")
def test_a_kind_of_ones_own_is_its_name():
    assert type_named("TPU") == "tpu"
    assert type_named("disk") is ResourceType.DISK
    with pytest.raises(BadValue):
        type_named("t p u")


@pytest.mark.rows("S3-10")
def test_a_request_has_an_id_of_its_own():
    one, other = (ResourceRequest(resource_type=ResourceType.GPU, amount=1) for _ in range(2))

    assert one.request_id != other.request_id
    assert (one.priority, one.max_wait_time, one.preferred_nodes) == ("medium", 300, ())


@pytest.mark.rows("S3-06", "S3-09", "S3-14")
async def test_the_manager_knows_what_is_offered_and_borrowed(manager, agent):
    loan = AllocationView(request_id="ab" * 32, name="r", kind="storage", amount=GIB,
                          allocated_ms=STARTED_MS, expires_ms=STARTED_MS + 1_000)  # fmt: skip
    agent.lends = msgspec.structs.replace(agent.lends, offers=OFFERS, allocations=(loan,))
    async with manager:
        offers = await manager.get_resource_offers()
        gpus = await manager.get_resource_offers("GPU")
        (allocation,) = await manager.get_active_allocations()

    assert [offer.resource_type for offer in offers] == [
        ResourceType.CPU, ResourceType.MEMORY, ResourceType.GPU, "tpu",
    ]  # fmt: skip
    assert gpus == [
        ResourceOffer(
            node_id="desk", resource_type=ResourceType.GPU, amount=1, total=8,
            available_until=datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC),
            conditions={"gpu_id": "GPU-1", "memory_free_mb": 8_192, "memory_total_mb": 8_192,
                        "total": 8},
        )
    ]  # fmt: skip
    assert (allocation.resource_type, allocation.amount) == (ResourceType.DISK, 1)
    assert allocation.request_id == "r"
    assert allocation.expires_at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)


async def test_nothing_works_before_the_start(manager):
    with pytest.raises(NotInitialized, match="the manager"):
        await manager.get_resource_offers()
    await manager.stop()


def lent(agent: CannedAgent, spec, state: str = "running"):
    """The canned agent lends to whoever asks."""
    loan = AllocationView(request_id=spec.id, name=spec.name, kind="cpu", amount=1_000,
                          allocated_ms=STARTED_MS)  # fmt: skip
    agent.lends = msgspec.structs.replace(agent.lends, allocations=(loan,))
    return a_view(spec.name, state=state, exit_code=None)


async def test_a_request_holds_until_it_is_released(manager, agent):
    request = ResourceRequest(resource_type="cpu", amount=1, request_id="r1", priority="high")
    agent.ends_as = lambda spec: lent(agent, spec)
    async with manager:
        allocation = await manager.request_resources(request)
        with pytest.raises(BadValue, match="holds nothing yet"):
            await manager.request_resources(request)
        (spec,) = agent.submitted
        folder = spec.work.argv[4]
        assert exists(folder)
        agent.views[spec.id] = a_view("r1", id=spec.id, state="cancelled", exit_code=None)
        await manager.release_resources("r1")
        with pytest.raises(NotFound):
            await manager.release_resources("r1")

    assert (allocation.request_id, allocation.job_id) == ("r1", spec.id)
    assert (allocation.amount, allocation.expires_at) == (1, None)
    assert (spec.is_shared, spec.priority) == (True, "high")
    assert not exists(folder)
    assert agent.cancelled == ["r1"]


async def test_what_is_held_is_released_at_the_stop(manager, agent):
    request = ResourceRequest(resource_type="cpu", amount=1, request_id="r1")
    agent.ends_as = lambda spec: lent(agent, spec)
    await manager.start()
    await manager.request_resources(request)
    (spec,) = agent.submitted
    agent.views[spec.id] = a_view("r1", id=spec.id, state="cancelled", exit_code=None)
    await manager.stop()

    assert agent.cancelled == ["r1"]


async def test_a_request_that_gets_nothing_leaves_nothing(manager, agent):
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)
    request = ResourceRequest(resource_type="cpu", amount=1, max_wait_time=0)
    async with manager:
        with pytest.raises(RuntimeError, match="No resources available"):
            await manager.request_resources(request)
    folder = agent.submitted[0].work.argv[4]

    assert not exists(folder)


async def test_a_script_runs_on_what_is_held(manager, agent):
    agent.ends_as = lambda spec: lent(agent, spec)
    agent.write("r1", b"done\n")
    request = ResourceRequest(resource_type="cpu", amount=1, request_id="r1")
    async with manager:
        await manager.request_resources(request)
        (spec,) = agent.submitted
        agent.views[spec.id] = a_view("r1", id=spec.id)
        ok, output = await manager.execute_on_shared_resources(request, "echo done")

    assert (ok, output) == (True, "done\n")
    assert len(agent.submitted) == 1


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({}, (True, "out\n")),
        ({"state": "failed", "exit_code": 1}, (False, "err\n")),
    ],
)
async def test_a_script_alone_asks_for_what_it_needs(manager, agent, fields, answer):
    agent.write("task", b"out\n")
    agent.write("task", b"err\n", stream="stderr")
    agent.ends_as = lambda spec: a_view(spec.name, **fields)
    request = ResourceRequest(resource_type=ResourceType.MEMORY, amount=4, job_id="task")
    async with manager:
        assert await manager.execute_on_shared_resources(request, "./run") == answer
    (spec,) = agent.submitted

    assert (spec.name, spec.request.memory_bytes) == ("task", 4 * GIB)


async def test_a_script_without_resources_says_why_it_did_not_run(manager, agent):
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)
    request = ResourceRequest(resource_type="cpu", amount=1, max_wait_time=0)
    async with manager:
        ok, output = await manager.execute_on_shared_resources(request, "true")

    assert not ok
    assert "No resources available" in output


@pytest.fixture
def protocol(tmp_path, agent):
    return ResourceSharingProtocol(data_dir=tmp_path)


@pytest.mark.rows("S3-07", "S3-08")
async def test_an_agent_answers_here_and_elsewhere_ssh_is_asked_as_the_file_says(
    tmp_path, agent, monkeypatch
):
    (tmp_path / "ssh").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\nexit 255\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    nodes = [NodeConfig(name="gpu1", host="10.0.0.7", user="ada", ssh_key_path="/key")]
    protocol = ResourceSharingProtocol(ClusterConfig(nodes=nodes), data_dir=tmp_path)

    assert await protocol.install_worker_agent("desk")
    assert await protocol.install_worker_agent(NodeConfig(name="x", host="localhost"))
    for node, words in (("gpu1", "-i /key -- ada@10.0.0.7"), ("gpu2", "-- gpu2")):
        with pytest.raises(NotBrought, match="ssh ended: exit code 255"):
            await protocol.install_worker_agent(node)
        assert words in (tmp_path / "words").read_text()
    with pytest.raises(
        NotJoined, match="on gpu1: grid join TICKET; or by ssh: grid bootstrap gpu1"
    ):
        await protocol.check_node_resources("gpu1")
    await protocol.close()


async def test_a_node_reports_as_the_worker_of_the_seed_did(protocol, agent):
    use = OwnerUse(at_ms=STARTED_MS, cpu_used_milli=150, memory_used_milli=400,
                   gpu_used_milli=(("GPU-1", 50),))  # fmt: skip
    agent.lends = msgspec.structs.replace(agent.lends, offers=OFFERS, owner=use)
    report = await protocol.check_node_resources("desk")
    await protocol.close()

    assert report["node_id"] == "desk"
    assert len(report["offers"]) == 4
    assert report["status"]["cpu"] == {"percent": 15, "total_cores": 8, "available_cores": 6.5}
    assert report["status"]["memory"] == {"total_gb": 16, "available_gb": 4, "percent": 40}
    assert report["status"]["gpus"][0]["utilization_percent"] == 5
    assert report["status"]["disk"]["total_gb"] > 0


@pytest.mark.rows("S3-24", "S3-25", "S3-26", "S3-27", "S3-28", "S3-29")
@pytest.mark.parametrize(
    ("thresholds", "left"),
    [
        ({}, ["cpu", "memory", "gpu", "tpu"]),
        ({"cpu_percent_max": 15}, ["memory", "gpu", "tpu"]),
        ({"cpu_min_cores": 4}, ["memory", "gpu", "tpu"]),
        ({"memory_percent_max": 40}, ["cpu", "gpu", "tpu"]),
        ({"memory_min_gb": 4}, ["cpu", "gpu", "tpu"]),
        ({"gpu_utilization_max": 5}, ["cpu", "memory", "tpu"]),
        ({"gpu_memory_min_mb": 8_192}, ["cpu", "memory", "tpu"]),
    ],
)
async def test_usage_is_strictly_below_and_free_is_strictly_above(
    protocol, agent, thresholds, left
):
    use = OwnerUse(at_ms=STARTED_MS, cpu_used_milli=150, memory_used_milli=400,
                   gpu_used_milli=(("GPU-1", 50),))  # fmt: skip
    agent.lends = msgspec.structs.replace(agent.lends, offers=OFFERS, owner=use)
    report = await protocol.check_node_resources("desk", thresholds)
    same = await protocol.check_node_resources("desk", ThresholdsConfig(**thresholds))
    await protocol.close()

    assert [offer["resource_type"] for offer in report["offers"]] == left
    assert same["offers"] == report["offers"]


async def test_what_was_not_measured_passes_no_threshold(protocol, agent):
    agent.lends = msgspec.structs.replace(agent.lends, offers=OFFERS[:2])
    report = await protocol.check_node_resources("desk", {})
    with pytest.raises(BadValue):
        await protocol.check_node_resources("desk", {"cpu_percent_max": "half"})
    await protocol.close()

    assert (report["offers"], report["timestamp"]) == ([], None)


@pytest.mark.rows("S3-99")
async def test_a_remote_job_has_a_directory_of_its_own(protocol, agent, tmp_path):
    agent.write("echo", b"hi\n")
    resources = {"cpu": 2, "memory": 4, "tpu": 1}
    done = await protocol.execute_remote_job("desk", "echo hi", resources, str(tmp_path / "jobs"))
    again = await protocol.execute_remote_job("desk", "echo hi", {"gpu": 1}, str(tmp_path / "jobs"))
    await protocol.close()
    first, second = agent.submitted

    assert done == again == (True, "hi\n")
    assert first.request.cpu_milli == 2_000
    assert first.request.memory_bytes == 4 * GIB
    assert first.request.custom == (("tpu", 1_000),)
    assert first.work.cwd != second.work.cwd
    assert list((tmp_path / "jobs").iterdir()) == []


async def test_a_remote_job_that_fails_tells_its_stderr(protocol, agent, tmp_path):
    agent.ends_as = lambda spec: a_view(spec.name, state="failed", exit_code=1)
    agent.write("boom", b"broken\n", stream="stderr")
    failed = await protocol.execute_remote_job("desk", "boom", {"cpu": 1}, str(tmp_path / "jobs"))
    with pytest.raises(BadValue, match="above zero"):
        await protocol.execute_remote_job("desk", "true", {"cpu": 0}, str(tmp_path / "jobs"))
    await protocol.close()

    assert failed == (False, "broken\n")
    assert list((tmp_path / "jobs").iterdir()) == []


async def test_an_agent_that_cannot_be_started_says_why(tmp_path):
    (tmp_path / "file").write_text("in the way")
    manager = ResourceSharingManager(data_dir=tmp_path / "file" / "home")

    with pytest.raises(NotStarted, match="A file stands in the way"):
        await manager.start()


async def test_another_node_of_the_mesh_reports_what_it_knows_of_itself(protocol, agent):
    agent.mesh.members.append(a_node("attic"))
    agent.lends = msgspec.structs.replace(agent.lends, offers=OFFERS)
    report = await protocol.check_node_resources("attic")
    disks = [offer for offer in report["offers"] if offer["resource_type"] == "disk"]
    agent.lends = msgspec.structs.replace(agent.lends, offers=())
    nothing = await protocol.check_node_resources("attic")
    await protocol.close()

    assert (report["node_id"], {offer["node_id"] for offer in report["offers"]}) == (
        "attic",
        {"attic"},
    )
    told = report["status"]["disk"]
    assert [told["total_gb"]] == ([disk["total"] for disk in disks] or [None])
    assert nothing["status"]["disk"] == {"total_gb": None, "free_gb": None}


async def test_a_job_for_another_node_starts_there_in_a_directory_of_its_own(
    protocol, agent, tmp_path
):
    agent.mesh.members.append(a_node("attic"))
    agent.write("echo", b"there\n")
    done = await protocol.execute_remote_job(
        "attic", "echo there", {"cpu": 1}, work_dir=str(tmp_path / "jobs")
    )
    await protocol.close()
    [spec] = agent.submitted

    assert done == (True, "there\n")
    assert spec.require.nodes == ("attic",)
    assert not (tmp_path / "jobs").exists()
