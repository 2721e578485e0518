import pytest

from distributed_grid.kernel.inventory import inventory_of
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice, GpuLink, MigSlice
from distributed_grid.model.hardware_parts import Cpu, Limits, Memory, NumaNode, Storage
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Resources


def a_lease(cores: tuple[tuple[int, int], ...]) -> Lease:
    held = Resources(cpu_milli=sum(share for _, share in cores))
    return Lease(
        id="a",
        job=job_id_of("j"),
        attempt="1",
        cores=cores,
        resources=held,
        state="committed",
        granted_ms=0,
    )


def a_profile(**what_matters) -> HardwareProfile:
    numa = (
        NumaNode(node=0, cpus="0-1,4-5", logical_cores=4),
        NumaNode(node=1, cpus="2-3,6-7", logical_cores=4),
    )
    fields = {
        "cpu": Cpu(logical_cores=8, numa_nodes=numa),
        "memory": Memory(total_bytes=8 * GIB),
        "storage": Storage(file_system_bytes=1 << 40),
    }
    return HardwareProfile(**{**fields, **what_matters})


def a_gpu(name: str, *links: GpuLink, **what_matters) -> GpuDevice:
    return GpuDevice(
        index=0, vendor="nvidia", name="H100", device=name, links=links, **what_matters
    )


@pytest.mark.rows("S4-79", "S3-103")
def test_an_inventory_names_the_cores_of_each_numa_node():
    inventory = inventory_of(a_profile(), custom=(("tpu", 4_000),))

    assert inventory.cores == ((0, 0), (1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 1), (7, 1))
    assert inventory.total == Resources(
        cpu_milli=8_000, memory_bytes=8 * GIB, storage_bytes=1 << 40, custom=(("tpu", 4_000),)
    )
    lease = a_lease(((2, 1_000), (3, 500)))
    assert inventory.pins(lease) == (2, 3)


def test_cores_outside_the_affinity_and_beyond_the_limit_are_not_granted():
    limited = a_profile(limits=Limits(cpu_milli=2_500))

    assert inventory_of(limited).cpu_milli == 2_500
    inventory = inventory_of(a_profile(), usable_cores={1, 3, 99})
    assert (inventory.cores, inventory.cpu_milli) == (((1, 0), (3, 1), (99, 0)), 3_000)


def test_without_a_word_on_numa_all_cores_are_one_node():
    inventory = inventory_of(a_profile(cpu=Cpu(logical_cores=2)))

    assert inventory.cores == ((0, 0), (1, 0))


def test_pretended_cores_have_ids_but_are_never_pinned():
    pretended = a_profile(
        cpu=Cpu(logical_cores=3), limits=Limits(cpu_milli=2_500, cpu_limit="pretended")
    )
    inventory = inventory_of(pretended, usable_cores={0})

    assert (len(inventory.cores), inventory.cpu_milli) == (3, 2_500)
    assert inventory.pins(a_lease(((0, 1_000),))) == ()


def test_a_device_that_is_unwell_or_only_draws_is_not_granted():
    profile = a_profile(
        gpus=(
            a_gpu("well", GpuLink(to="sick", kind="nvlink", lanes=4)),
            a_gpu("sick", healthy=False),
            a_gpu("screen", integrated=True),
            a_gpu("cut", mig_enabled=True, mig=(MigSlice(uuid="mig-1", name="H100 MIG 1g.10gb"),)),
        )
    )
    inventory = inventory_of(profile)

    assert [gpu.device for gpu in inventory.gpus] == ["mig-1", "well"]
    assert inventory.links == ()


def test_links_are_weighed_and_told_once():
    profile = a_profile(
        gpus=(
            a_gpu("b", GpuLink(to="a", kind="nvlink", lanes=2), GpuLink(to="c", kind="system")),
            a_gpu("a", GpuLink(to="b", kind="nvlink", lanes=4), GpuLink(to="a", kind="nvlink")),
            a_gpu("c", GpuLink(to="a", kind="carrier-pigeon")),
        )
    )

    assert inventory_of(profile).links == (("a", "b", 400), ("a", "c", 0), ("b", "c", 10))
