"""Does `grid place` say what would run where, and why not elsewhere?"""

import json
import subprocess

import pytest

from tests.conftest import VENV_BIN

pytestmark = pytest.mark.unmeasured

ATTIC, LAB, PI = ("5f0c" + "0" * 60, "a0" + "1" * 62, "b0" + "2" * 62)
NODES = f"""
- id: {ATTIC}
  name: attic
  class: workstation
  labels: {{zone: home, ssd: "true"}}
  capabilities: {{cpu_cores: 16, memory: 64GiB, storage: 2TiB, gpus: [{{model: RTX4090, memory: 24GiB, count: 1}}], arch: x86_64}}
  capacity:     {{cpu_cores: 9.5, memory: 40GiB, storage: 1TiB, gpus: [{{model: RTX4090, count: 1}}]}}
  power: {{on_battery: false, battery_percent: 100, temperature_c: 55, watts_idle: 60, watts_max: 450}}
  network: {{bandwidth_mbps: 1000, latency_ms: 4, reachability: direct}}
  price_per_hour: 0.0
  age_seconds: 3
- id: {LAB}
  name: lab
  class: datacenter
  capabilities: {{cpu_cores: 64, memory: 256GiB, gpus: [{{model: H100, memory: 80GiB, count: 4}}]}}
  capacity:     {{cpu_cores: 2, memory: 256GiB, gpus: [{{model: H100, count: 4}}]}}
  age_seconds: 90
- id: {PI}
  name: pi
  class: edge
  capabilities: {{cpu_cores: 4, memory: 8GiB, arch: aarch64}}
  capacity:     {{cpu_cores: 4, memory: 8GiB}}
  power: {{temperature_c: 90}}
"""
JOB = """
name: training-job
cpus: 4
memory: 16GiB
gpus: {model: any, count: 1, memory: 20GiB}
battery_safe: true
"""


@pytest.fixture
def files(tmp_path):
    nodes, job = tmp_path / "nodes.yaml", tmp_path / "job.yaml"
    nodes.write_text(NODES)
    job.write_text(JOB)
    return ["--nodes", str(nodes), "--job", str(job)]


def a_job(files, text, name="other.yaml"):
    """The same nodes and another job."""
    from pathlib import Path

    file = Path(files[1]).parent / name
    file.write_text(text)
    return [*files[:2], "--job", str(file)]


def answer(done, code=0):
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.rows("S1-122", "S1-01")
def test_json_has_the_promised_shape(grid, files):
    found = answer(grid("place", *files, "--json"))

    assert found["responsible"] == ATTIC
    assert found["cluster"] == [ATTIC]
    (ranked,) = found["ranked"]
    assert ranked["id"] == ATTIC
    assert ranked["score"] == sum(ranked["parts"].values()) == 0
    assert len(ranked["rank_key"]) == 64
    assert (found["policy"], found["rank"]) == (None, "even")
    assert found["skew"] == {ATTIC: {"observed": 1.0, "expected": 1.0}}
    assert {refusal["id"]: refusal["reasons"] for refusal in found["refused"]} == {
        LAB: [
            {"what": "cpus", "wanted": 4, "has": 2, "kind": "capacity"},
            {"what": "age_seconds", "wanted": 60, "has": 90, "kind": "stale"},
        ],
        PI: [
            {"what": "memory", "wanted": 16 << 30, "has": 8 << 30, "kind": "capability"},
            {"what": "gpus", "wanted": 1, "has": 0, "kind": "capability"},
            {"what": "temperature_c", "wanted": 85, "has": 90, "kind": "policy"},
        ],
    }


def test_json_has_no_other_keys_than_the_documented_ones(grid, files):
    found = answer(grid("place", *files, "--json"))

    assert set(found) == {
        *("responsible", "cluster", "ranked", "refused", "policy", "rank", "skew"),
        *("job", "filters"),
    }
    assert set(found["ranked"][0]) == {"id", "name", "score", "parts", "rank_key"}
    assert set(found["refused"][0]) == {"id", "name", "reasons"}
    assert found["job"]["name"] == "training-job"
    assert found["filters"] == []


@pytest.mark.rows("S1-50")
def test_text_names_the_node_the_order_and_every_reason(grid, files):
    done = grid("place", *files)

    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.splitlines()[0]
    assert first.startswith("training-job → attic")
    for word in ("responsible", "refused", "lab", "cpus", "capacity", "1m30s", "stale", "90 °C"):
        assert word in done.stdout, word


@pytest.mark.rows("S1-78", "S1-118")
def test_exit_3_if_nothing_fits_with_the_reasons_still_printed(grid, files):
    files = a_job(files, "{name: huge, cpus: 1000}")

    found = answer(grid("place", *files, "--json"), code=3)
    text = grid("place", *files)

    assert (found["responsible"], found["cluster"], found["ranked"]) == (None, [], [])
    assert len(found["refused"]) == 3
    assert text.returncode == 3
    assert "huge fits on none of 3 nodes" in text.stdout
    assert "capability" in text.stdout


def test_exit_2_on_bad_input_with_file_path_and_what_was_expected(grid, files):
    files = a_job(files, "{name: x, cpus: many}")

    done = grid("place", *files)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"grid: {files[3]}: $.cpus: expected a number of cores, got 'many'. "
        "Write it like 4 or 0.5.\n"
    )


def test_a_list_of_jobs_gives_a_list_of_decisions(grid, files):
    files = a_job(files, "[{name: one}, {name: two, cpus: 4}]")

    found = answer(grid("place", *files, "--json"))

    assert [decision["job"]["name"] for decision in found] == ["one", "two"]
    assert all(decision["responsible"] for decision in found)


def test_one_job_that_fits_nowhere_makes_the_exit_code_of_the_list(grid, files):
    files = a_job(files, "[{name: one}, {name: huge, cpus: 1000}, {name: two}]")

    found = answer(grid("place", *files, "--json"), code=3)

    assert [decision["responsible"] is None for decision in found] == [False, True, False]


def test_an_empty_list_of_jobs_is_an_empty_list_of_decisions(grid, files):
    assert answer(grid("place", *a_job(files, "[]"), "--json")) == []


def test_with_fill_each_job_takes_its_resources(grid, files):
    files = a_job(files, "[{name: one, gpus: 1}, {name: two, gpus: 1}]")
    files += ["--json"]

    apart = answer(grid("place", *files))
    filled = answer(grid("place", *files, "--fill"), code=3)

    assert [decision["responsible"] for decision in apart] == [ATTIC, ATTIC]
    assert [decision["responsible"] for decision in filled] == [ATTIC, None]
    reasons = {refusal["name"]: refusal["reasons"] for refusal in filled[1]["refused"]}
    assert reasons["attic"] == [{"what": "gpus", "wanted": 1, "has": 0, "kind": "capacity"}]


@pytest.mark.rows("S1-53", "S1-79", "S1-80", "S1-89")
@pytest.mark.parametrize("me", ["attic", ATTIC])
def test_a_node_asks_what_it_is_itself(grid, files, me):
    files = [*a_job(files, "{name: small, cpus: 1}"), "--max-age", "2m"]
    first, second = answer(grid("place", *files, "--json"))["cluster"]

    standing = answer(grid("place", *files, "--as", me, "--json"))["standing"]
    outside = answer(grid("place", *files, "--as", "pi", "--json"))["standing"]

    assert standing == {first: "responsible", second: "member"}[ATTIC]
    assert outside == "neither"
    assert f"this node is {standing}" in grid("place", *files, "--as", me).stdout


def test_a_node_nobody_knows_is_told_who_is_known(grid, files):
    done = grid("place", *files, "--as", "cellar")

    assert done.returncode == 2
    assert done.stderr == "grid: there is no node named 'cellar'. Known: attic, lab, pi.\n"


def test_a_name_that_several_nodes_have_is_not_enough(grid, files, tmp_path):
    twins = tmp_path / "twins.yaml"
    twins.write_text(NODES.replace("name: lab", "name: attic"))

    done = grid("place", "--nodes", twins, *files[2:], "--as", "attic")

    assert done.returncode == 2
    assert "use the id" in done.stderr


@pytest.mark.rows("S1-112", "S1-113")
def test_old_records_are_used_on_demand_and_marked(grid, files):
    files = [*a_job(files, "{name: small, cpus: 1}"), "--json"]

    default = answer(grid("place", *files))
    longer = answer(grid("place", *files, "--max-age", "1.5m"))
    last_known = answer(grid("place", *files, "--last-known"))

    assert LAB not in [r["id"] for r in default["ranked"]]
    assert LAB in [r["id"] for r in longer["ranked"]]
    assert {r["name"]: r.get("stale") for r in last_known["ranked"]} == {"attic": None, "lab": True}
    assert "lab (stale)" in grid("place", *files[:-1], "--last-known").stdout


@pytest.mark.rows("S1-88", "S1-94", "S1-117")
def test_rank_and_cluster_size_are_flags(grid, files):
    files = [*a_job(files, f"{{name: small, cpus: 1, id: {'a1' + '0' * 62}}}"), "--json"]
    files += ["--last-known", "--rank", "xor"]

    found = answer(grid("place", *files))
    alone = answer(grid("place", *files, "--cluster-size", "1"))

    assert found["rank"] == "xor"
    assert found["cluster"] == [LAB, ATTIC]  # a1 is nearer to a0 than to 5f.
    assert found["ranked"][0]["rank_key"] == f"{int('a1' + '0' * 62, 16) ^ int(LAB, 16):064x}"
    assert alone["cluster"] == [LAB]
    assert len(alone["ranked"]) == 2


@pytest.mark.rows("S2-77", "S2-78", "S2-79", "S2-80", "S2-81", "S2-82", "S2-83", "S4-20", "S4-21")
@pytest.mark.parametrize(
    ("policy", "name", "part"),
    [
        ("BestFit", "BestFit", "waste"),
        ("first-fit", "FirstFit", "order"),
        ("roundrobin", "RoundRobin", "jobs"),
        ("power_aware", "PowerAware", "power_mw"),
        ("LocalityAware", "LocalityAware", "latency_us"),
        ("CostOptimized", "CostOptimized", "price_micro"),
        ("Balanced", "Balanced", "load"),
        ("spread", "Spread", "load"),
        ("binpack", "BestFit", "waste"),
    ],
)
def test_every_policy_by_name_with_its_parts(grid, files, policy, name, part):
    found = answer(grid("place", *files, "--policy", policy, "--json"))

    assert found["policy"] == name
    assert part in found["ranked"][0]["parts"]


def test_an_unknown_policy_is_told_which_there_are(grid, files):
    done = grid("place", *files, "--policy", "Cheapest")

    assert done.returncode == 2
    assert "there is no policy named 'Cheapest'" in done.stderr
    assert "BestFit" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("stream", ["--nodes", "--job"])
def test_one_of_the_files_may_be_standard_input(grid, files, stream):
    text = NODES if stream == "--nodes" else JOB
    files[files.index(stream) + 1] = "-"

    assert answer(grid("place", *files, "--json", stdin=text))["responsible"] == ATTIC


def test_both_files_cannot_be_standard_input(grid):
    done = grid("place", "--nodes", "-", "--job", "-", stdin=NODES)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "flags",
    [
        ["--max-age", "soon"],
        ["--cluster-size", "0"],
        ["--rank", "random"],
        ["--colour", "red"],
        ["extra"],
    ],
)
def test_flags_that_make_no_sense_are_usage_errors(grid, files, flags):
    done = grid("place", *files, *flags)

    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_both_files_are_needed(grid, files):
    assert grid("place", *files[:2]).returncode == 2


@pytest.mark.rows("S1-45", "S1-46", "S1-50")
def test_decisions_are_logged_as_structured_events_where_asked(grid, files):
    done = grid("--log-level", "debug", "--log-format", "json", "place", *files, "--json")
    events = [json.loads(line) for line in done.stderr.splitlines()]

    assert done.returncode == 0
    assert json.loads(done.stdout)["responsible"] == ATTIC
    assert {event["event"] for event in events} == {
        "placement.capability",
        "placement.capacity",
        "placement.refused",
        "placement.decided",
    }
    capacity = {e["node"]: e for e in events if e["event"] == "placement.capacity"}
    assert {node: event["fits"] for node, event in capacity.items()} == {
        "attic": True,
        "lab": False,
        "pi": False,
    }
    assert {"what": "cpu_milli", "wanted": 4_000, "has": 2_000} in capacity["lab"]["checked"]
    refused = next(e for e in events if e["event"] == "placement.refused" and e["node"] == "lab")
    assert refused["reasons"][0] == {
        "what": "cpu_milli",
        "wanted": 4_000,
        "has": 2_000,
        "kind": "capacity",
    }
    assert events[-1]["event"] == "placement.decided"
    assert (events[-1]["eligible"], events[-1]["refused"]) == (1, 2)


def test_info_leaves_out_the_details_and_text_is_for_people(grid, files):
    done = grid("--log-level", "info", "place", *files, "--json")

    assert "placement.decided" in done.stderr
    assert "placement.capability" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("level", ["warning", "error"])
def test_nothing_is_told_on_stderr_otherwise(grid, files, level):
    assert grid("--log-level", level, "place", *files).stderr == ""


def test_the_level_can_come_from_the_environment(grid, files):
    done = grid("place", *files, env={"GRID_LOG_LEVEL": "info", "GRID_LOG_FORMAT": "json"})

    assert json.loads(done.stderr.splitlines()[-1])["event"] == "placement.decided"


@pytest.mark.parametrize("name", ["[/red]", "[bold]x[/bold]", ":smile:", "a\\[b", "漢字"])
def test_a_name_is_shown_as_it_is_and_never_as_markup(grid, files, name, tmp_path):
    file = tmp_path / "marked.json"
    nodes = [{"id": "c" * 64, "name": name, "capabilities": {"cpu_cores": 2}, "capacity": {}}]
    nodes += [nodes[0] | {"id": "d" * 64, "capacity": {"cpu_cores": 1}}]
    file.write_text(json.dumps(nodes))

    done = grid("place", "--nodes", file, *a_job(files, json.dumps({"name": name}))[2:])

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].startswith(f"{name} → {name} ")
    assert sum(name in line for line in done.stdout.splitlines()) == 3


def test_more_than_a_screen_is_cut_in_text_and_whole_in_json(grid, files, tmp_path):
    file = tmp_path / "many.json"
    file.write_text(
        json.dumps(
            [
                {
                    "id": f"{n:064x}",
                    "name": f"n{n}",
                    "capabilities": {"cpu_cores": 2},
                    "capacity": {"cpu_cores": n % 2},
                }
                for n in range(100)
            ]
        )
    )
    files = ["--nodes", str(file), *a_job(files, "{name: small}")[2:]]

    text = grid("place", *files).stdout

    assert "… and 38 more that fit" in text
    assert "… and 38 more that do not fit" in text
    assert len(answer(grid("place", *files, "--json"))["ranked"]) == 50


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_leaves_early_gets_no_traceback(files, clean_env, flags, tmp_path):
    jobs = a_job(files, json.dumps([{"name": f"job-{n}"} for n in range(400)]))
    grid = subprocess.Popen(
        [VENV_BIN / "grid", "place", *jobs, *flags],
        env=clean_env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    head = subprocess.run(["head", "-1"], stdin=grid.stdout, capture_output=True, check=True)
    grid.stdout.close()
    grid.stdout = None
    _, errors = grid.communicate(timeout=60)

    assert head.stdout.strip()
    assert errors == b""


@pytest.mark.rows("S4-91", "S4-92")
def test_affinity_and_anti_affinity_follow_the_batch(grid, files):
    batch = [
        {"name": "db", "cpus": 1},
        {"name": "web", "cpus": 1, "require": {"jobs": ["db"]}},
        {"name": "backup", "cpus": 1, "avoid": {"jobs": ["db"]}},
    ]
    files = [*a_job(files, json.dumps(batch), "batch.json"), "--fill", "--last-known", "--json"]

    db, web, backup = (decision["responsible"] for decision in answer(grid("place", *files)))

    assert db == web
    assert backup not in {db, None}


@pytest.mark.rows("S1-23", "S1-74", "S1-81", "S2-123")
@pytest.mark.slow
def test_a_decision_among_1000_nodes_takes_less_than_10_ms():
    from time import perf_counter

    from distributed_grid import place
    from distributed_grid.kernel.placement import Rules, snapshot
    from distributed_grid.kernel.placement.policies import POLICIES
    from distributed_grid.sim.fleet import random_fleet, random_jobs

    held = snapshot(random_fleet(1_000, seed=3))
    for policy in POLICIES:
        took = []
        for job in random_jobs(25, seed=3):
            start = perf_counter()
            place(job, held, Rules(policy=policy))
            took.append(perf_counter() - start)

        assert sorted(took)[len(took) // 2] < 0.010, policy.name
