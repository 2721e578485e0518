"""The terms of lending and the weights, as people write them."""

from pathlib import Path

import pytest

from distributed_grid.config.settings import Loaded, load_settings
from distributed_grid.config.terms import KEYS, PRESETS, with_terms
from distributed_grid.errors import BadInput
from distributed_grid.model.lending import Hours, Terms, Thresholds
from distributed_grid.model.priority import Weights
from tests.unit.lending_lab import Lab, a_gpu

EVERYTHING = """\
resource_sharing:
  enabled: false
  mode: Share_And_Offload
  policy: PREDICTIVE
  check_interval: 30
  offer_expiry: 90
  max_offers_per_node: 3
  monitoring_interval_seconds: 5
  allocation_timeout_minutes: 20
  thresholds:
    gpu_utilization_max: 12.5
    gpu_memory_min_mb: 512
    memory_percent_max: 60
    memory_min_gb: 0.5
    cpu_percent_max: 40
    cpu_min_cores: 0.5
    cpu_pressure_high: 0.9
    cpu_pressure_low: 0.4
    memory_pressure_high: 0.7
    memory_pressure_low: 0.6
    gpu_pressure_high: 1
    gpu_pressure_low: 0
  reserve: {cpus: 1.5, memory: 2GiB, gpus: 1}
  hours: "22:00-07:00"
  days: [sat, sun]
  battery_min_percent: 80
  temperature_max: 70.5
  quiet: 90s
  yield: stop
  suspended_max: 1h
  allow_urgent: true
  allow_no_preempt: true
fair_share:
  users: {ada: 2, bob: 0.5}
  projects: {thesis: 3}
  ageing: 30m
"""


def load(folder: Path, text: str) -> Loaded:
    (folder / "cluster_config.yaml").write_text(text, encoding="utf-8")
    return load_settings({}, directory=str(folder))


@pytest.mark.rows("S3-20", "S3-21", "S3-22", "S3-23")
def test_every_term_can_be_written(tmp_path):
    settings = load(tmp_path, EVERYTHING).settings

    assert settings.terms == Terms(
        is_enabled=False,
        mode="share_and_offload",
        policy="predictive",
        check_interval_ms=30_000,
        offer_expiry_ms=90_000,
        offers_max=3,
        monitoring_interval_ms=5_000,
        allocation_ms_max=1_200_000,
        thresholds=Thresholds(
            gpu_utilization_max_milli=125,
            gpu_memory_min_bytes=512 << 20,
            memory_used_max_milli=600,
            memory_min_bytes=512 << 20,
            cpu_used_max_milli=400,
            cpu_min_milli=500,
            cpu_pressure_high_milli=900,
            cpu_pressure_low_milli=400,
            memory_pressure_high_milli=700,
            memory_pressure_low_milli=600,
            gpu_pressure_high_milli=1_000,
            gpu_pressure_low_milli=0,
        ),
        reserved_cpu_milli=1_500,
        reserved_memory_bytes=2 << 30,
        reserved_gpus=1,
        hours=Hours(from_minute=22 * 60, to_minute=7 * 60, days=(5, 6)),
        battery_min_percent=80,
        temperature_max_centi=7_050,
        quiet_ms=90_000,
        yield_to="stop",
        suspended_ms_max=3_600_000,
        allow_urgent=True,
        allow_no_preempt=True,
    )
    assert settings.weights == Weights(users={"ada": 2_000, "bob": 500}, projects={"thesis": 3_000})
    assert settings.ageing_ms == 1_800_000


def test_every_key_was_written_above(tmp_path):
    origins = load(tmp_path, EVERYTHING).origins

    assert all(origins[f"resource_sharing.{key}"].source == "file" for key in KEYS)


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        ("  thresholds:\n    cpu_percent_max: 101\n", 3, "thresholds.cpu_percent_max", "0 to 100"),
        ("  thresholds:\n    cpu_percent_max: -1\n", 3, "thresholds.cpu_percent_max", "0 to 100"),
        ("  thresholds:\n    cpu_pressure_high: 80\n", 3, "thresholds.cpu_pressure_high", "0.8"),
        ("  thresholds: {memory_min_gb: -2}\n", 2, "thresholds.memory_min_gb", "gigabytes from 0"),
        ("  thresholds: {gpu_memory_min_mb: x}\n", 2, "thresholds.gpu_memory_min_mb", "1024"),
        ("  thresholds: {cpu_min_cores: -1}\n", 2, "thresholds.cpu_min_cores", "0 or more"),
        ("  thresholds: 5\n", 2, "thresholds", "a mapping"),
        ("  threshold: {}\n", 2, "", "Did you mean 'thresholds'?"),
        ("  reserve: {gpus: 0.5}\n", 2, "reserve.gpus", "a whole number"),
        ("  reserve: {cpus: -1}\n", 2, "reserve.cpus", "0 or more"),
        ("  hours: 22:00-22:00\n", 2, "hours", "not the beginning"),
        ("  hours: 25:00-07:00\n", 2, "hours", "22:00-07:00"),
        ("  days: someday\n", 2, "days", "of the week"),
        ("  mode: lend\n", 2, "mode", "one of offload_only"),
        ("  yield: run\n", 2, "yield", "one of suspend"),
        ("  check_interval: 5\n", 2, "check_interval", "from 10"),
        ("  offer_expiry: 59\n", 2, "offer_expiry", "from 60"),
        ("  max_offers_per_node: 0\n", 2, "max_offers_per_node", "from 1"),
        ("  battery_min_percent: 102\n", 2, "battery_min_percent", "0 to 101"),
        ("  temperature_max: 500\n", 2, "temperature_max", "30 to 120"),
        ("  check_interval: 400\n", 2, "check_interval", "offers end after 5m"),
        (
            "  thresholds:\n    gpu_pressure_low: 0.9\n",
            3,
            "thresholds.gpu_pressure_low",
            "is not below the high one",
        ),
        (
            "  thresholds:\n    memory_pressure_high: 0.2\n",
            3,
            "thresholds.memory_pressure_high",
            "0.3 and 0.8",
        ),
    ],
)
def test_a_bad_term_is_told_with_line_path_and_remedy(tmp_path, text, line, path, words):
    with pytest.raises(BadInput) as error:
        load(tmp_path, f"resource_sharing:\n{text}")

    assert error.value.line == line
    assert error.value.path == f"$.resource_sharing.{path}".rstrip(".")
    assert words in str(error.value) + error.value.remedy


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("users: {ada: 0}", "users.ada", "above 0"),
        ("users: {ada: -1}", "users", "from 0 to 1000"),
        ("users: [ada]", "users", "{ada: 2}"),
        ("projects: {x: many}", "projects", "a weight"),
        ("ageing: 1s", "ageing", "1m or more"),
    ],
)
def test_a_bad_weight_is_told(tmp_path, text, path, words):
    with pytest.raises(BadInput) as error:
        load(tmp_path, f"fair_share:\n  {text}\n")

    assert (error.value.line, error.value.path) == (2, f"$.fair_share.{path}")
    assert words in str(error.value) + error.value.remedy


# --- One at a time -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "terms"),
    [
        (
            "thresholds.cpu_percent_max",
            "50",
            Terms(thresholds=Thresholds(cpu_used_max_milli=500)),
        ),
        ("resource_sharing.policy", "aggressive", Terms(policy="aggressive")),
        ("hours", "22:00-07:00", Terms(hours=Hours(from_minute=1_320, to_minute=420))),
        ("days", "mon-tue", Terms(hours=Hours(days=(0, 1)))),
        ("yield", "ignore", Terms(yield_to="ignore")),
        ("reserve.memory", "4GiB", Terms(reserved_memory_bytes=4 << 30)),
    ],
)
def test_one_term_is_changed_by_the_words_of_the_file(key, text, terms):
    assert with_terms(Terms(), [(key, text)]) == terms


def test_presets_are_several_terms_at_once_and_leave_the_others_as_they_are():
    hours = Hours(from_minute=1_320, to_minute=420)
    base = Terms(policy="predictive", thresholds=Thresholds(cpu_min_milli=5_000), hours=hours)
    found = {name: with_terms(base, [("preset", name)]) for name in PRESETS}

    assert list(found) == ["mine", "idle", "all", "nothing"]
    assert found["idle"] == Terms(hours=hours)
    assert not found["nothing"].is_enabled
    assert (found["mine"].is_enabled, found["mine"].mode) == (True, "offload_only")
    assert (found["all"].reserved_memory_bytes, found["all"].hours) == (0, hours)


@pytest.mark.parametrize("load", [0, 1_000])
def test_all_lends_every_core_and_gpu_whatever_the_load(load):
    lab = Lab()
    lab.terms = with_terms(lab.terms, [("preset", "all")])
    lab.lending.set_terms(lab.terms)
    gpus = (a_gpu(0, used=load, free=0), a_gpu(1, used=load))
    lab.sample(cpu=load, memory=load // 2, gpus=gpus, idle_ms=0)

    assert (lab.reasons(), lab.way().action) == ({}, "none")
    assert lab.amounts()["cpu"] == lab.total.cpu_milli
    assert lab.amounts()["memory"] == lab.total.memory_bytes * (2_000 - load) // 2_000
    assert {"gpu0", "gpu1"} <= lab.amounts().keys()


def test_several_words_are_judged_together():
    words = [("thresholds.cpu_pressure_low", "0.85"), ("thresholds.cpu_pressure_high", "0.9")]

    assert with_terms(Terms(), words).thresholds.cpu_pressure_low_milli == 850
    with pytest.raises(BadInput, match="is not below"):
        with_terms(Terms(), words[:1])


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("preset", "everything", "unknown key 'preset'"),
        ("thresholds.cpu_percent_max", "200", "percent from 0 to 100"),
        ("cpu_percent_max", "20", "unknown key 'cpu_percent_max'"),
        ("thresholds", "20", "a mapping"),
        ("auto_offload.cpu", "20", "is no term of lending"),
        ("", "20", "unknown key"),
        ("thresholds.cpu_pressure_low", "0.8", "is not below"),
        ("offer_expiry.x", "1", "a whole number"),
    ],
)
def test_a_term_that_cannot_be_changed_says_why(key, text, words):
    with pytest.raises(BadInput) as error:
        with_terms(Terms(), [(key, text)])

    assert words in str(error.value)
    assert error.value.file == "grid offer set"
    assert error.value.remedy
