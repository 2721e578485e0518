"""Does a file of jobs mean what it says?"""

import pytest

from distributed_grid.config.jobs import jobs_of, read_jobs
from distributed_grid.errors import BadInput
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.job import JobSpec, Where
from distributed_grid.model.resources import Request

TRAINING = """
id: 9A00000000000000000000000000000000000000000000000000000000000000
name: training-job
cpus: 4
memory: 16GiB
storage: 500M
gpus: {model: NVIDIA GeForce RTX 4090, count: 1, memory: 20GiB, compute_capability: 8.9}
custom: {tpu: 2}
arch: x86_64
features: [avx2]
require: {class: [workstation, data-center], labels: {ssd: "true"}, nodes: [attic],
          jobs: db, max_latency_ms: 50}
prefer: {class: datacenter}
avoid: {labels: {zone: cellar}}
avoid_if_possible: {jobs: [batch]}
battery_safe: false
"""


@pytest.mark.rows("S1-28", "S1-29", "S1-30", "S1-31", "S1-32", "S1-33")
def test_every_demand_of_a_job_is_read(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(TRAINING)

    (job,), is_list = read_jobs(str(file))

    assert not is_list
    assert job == JobSpec(
        id="9a" + "0" * 62,
        name="training-job",
        request=Request(
            cpu_milli=4_000,
            memory_bytes=16 * GIB,
            storage_bytes=500 * 10**6,
            gpus=GpuRequest(
                milli=1_000, model="RTX4090", memory_bytes=20 * GIB, compute_capability=89
            ),
            custom=(("tpu", 2_000),),
        ),
        arch="x86_64",
        features=("avx2",),
        require=Where(
            classes=("datacenter", "workstation"),
            labels=(("ssd", "true"),),
            nodes=("attic",),
            jobs=("db",),
            latency_us_max=50_000,
        ),
        prefer=Where(classes=("datacenter",)),
        avoid=Where(labels=(("zone", "cellar"),)),
        avoid_if_possible=Where(jobs=("batch",)),
        battery_safe=False,
    )


def test_only_the_name_is_needed():
    (job,), _ = jobs_of("f", {"name": "small"})

    assert job == JobSpec(id=job_id_of("small"), name="small", request=Request(cpu_milli=1_000))


def test_a_list_is_told_from_one():
    jobs, is_list = jobs_of("f", [{"name": "a"}, {"name": "b"}])

    assert ([job.name for job in jobs], is_list) == (["a", "b"], True)
    assert jobs_of("f", []) == ([], True)


@pytest.mark.parametrize(
    ("written", "request_"),
    [
        (2, GpuRequest(milli=2_000)),
        ("0.5", GpuRequest(milli=500)),
        (0.25, GpuRequest(milli=250)),
        ({"model": "any"}, GpuRequest()),
        ({"model": "ANY", "count": "2"}, GpuRequest(milli=2_000)),
        ({"count": 0}, None),
        (0, None),
        (None, None),
    ],
)
def test_gpus_are_a_number_or_a_description(written, request_):
    (job,), _ = jobs_of("f", {"name": "x", "gpus": written})

    assert job.request.gpus == request_


CASES = [
    ({}, "$", "the key 'name'"),
    ({"name": "x", "cpus": 0}, "$.cpus", "cpus of 0.001 and up"),
    ({"name": "x", "cpus": "1e9999999"}, "$.cpus", "at most 1000000 cores"),
    ({"name": "x", "cpus": -1}, "$.cpus", "cores of 0 or more"),
    ({"name": "x", "cpus": True}, "$.cpus", "a number of cores"),
    ({"name": "x", "memory": -1}, "$.memory", "an amount of bytes"),
    ({"name": "x", "gpus": 1.5}, "$.gpus.count", "a share of one GPU"),
    ({"name": "x", "gpus": True}, "$.gpus.count", "a number of GPUs"),
    ({"name": "x", "gpus": []}, "$.gpus", "a mapping"),
    ({"name": "x", "gpus": {"modle": "H100"}}, "$.gpus", "has the unknown key 'modle'"),
    ({"name": "x", "id": "9a"}, "$.id", "64 hex digits"),
    ({"name": "x", "require": {"class": ["desktop"]}}, "$.require.class", "one of datacenter"),
    ({"name": "x", "require": {"nodes": [5]}}, "$.require.nodes", "a name"),
    ({"name": "x", "require": {"max_latency_ms": "soon"}}, "$.require.max_latency_ms", "from 0"),
    ({"name": "x", "avoid": {"max_latency_ms": 5}}, "$.avoid", "unknown key 'max_latency_ms'"),
    ({"name": "x", "prefer": {"labels": {"a": 1}}}, "$.prefer.labels.a", "expected text"),
    (
        {"name": "x", "prefer": {"labels": {f"l{n}": "" for n in range(65)}}},
        "$.prefer.labels",
        "at most 64 labels",
    ),
    ({"name": "x", "custom": {f"k{n}": 1 for n in range(65)}}, "$", "at most 64 kinds"),
    ({"name": "x", "battery_safe": "maybe"}, "$.battery_safe", "true or false"),
    ("x", "$", "a mapping"),
    (None, "$", "a mapping"),
]


@pytest.mark.parametrize(("entry", "path", "problem"), CASES, ids=[case[2] for case in CASES])
@pytest.mark.parametrize("is_list", [False, True])
def test_a_job_that_makes_no_sense_is_refused_with_its_path(entry, path, problem, is_list):
    document = [{"name": "fine"}, entry] if is_list else entry
    with pytest.raises(BadInput) as caught:
        jobs_of("job.yaml", document)

    assert caught.value.path == (path.replace("$", "$[1]") if is_list else path)
    assert problem in caught.value.problem


def test_a_preference_for_many_nodes_is_one_wish():
    names = [f"node-{n}" for n in range(5_000)]

    (job,), _ = jobs_of("f", {"name": "x", "prefer": {"nodes": names}})

    assert len(job.prefer.nodes) == 5_000


def test_the_id_of_a_node_is_found_however_its_digits_are_written():
    [job], _ = jobs_of("job.json", {"name": "x", "require": {"nodes": ["AB" * 32, "attic"]}})

    assert job.require.nodes == ("ab" * 32, "attic")
