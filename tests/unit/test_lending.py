"""The owner's terms over time: when the machine lends, and when borrowed work gives way."""

import pytest

from distributed_grid.kernel.habits import HOURS
from distributed_grid.kernel.lending import Lending
from distributed_grid.kernel.lending_policies import MODES, POLICIES
from distributed_grid.model.lending import Hours, Thresholds
from distributed_grid.model.resources import Resources
from tests.unit.lending_lab import HOUR_MS, MINUTE_MS, NOON, SECOND_MS, Lab, a_gpu, a_machine

BUSY = {"cpu": 1_000}


def busy(lab: Lab, looks: int = 6, **how) -> Lab:
    for _ in range(looks):
        lab.sample(after_ms=10 * SECOND_MS, **(how or BUSY))
    return lab


# --- Whether it lends ----------------------------------------------------------------------------


def test_before_the_first_sample_nothing_is_lent_and_nothing_disturbed():
    lab = Lab()

    assert lab.reasons() == {"all": ("offer_expiry", "a sample", "nothing was measured yet")}
    assert (lab.state(), lab.way().action) == ("closed", "none")
    assert lab.lending.next_look_ms(is_lent=False) == MINUTE_MS


@pytest.mark.rows("S3-21")
def test_offers_expire_when_no_sample_comes():
    lab = Lab().sample()
    lab.now_ms += 5 * MINUTE_MS - 1
    assert lab.amounts()
    lab.now_ms += 1

    assert lab.amounts() == {}
    assert lab.reasons() == {"all": ("offer_expiry", "5m", "no sample for 5m")}
    assert lab.way().action == "none"
    assert lab.sample().amounts()


def test_offers_are_withdrawn_by_the_first_sample_that_says_so_and_come_back_smoothed():
    lab = Lab().sample()
    assert "cpu" in lab.amounts()
    lab.sample(after_ms=SECOND_MS, cpu=400)
    assert "cpu" not in lab.amounts()
    lab.sample(after_ms=SECOND_MS, cpu=1_000).sample(after_ms=MINUTE_MS, cpu=1_000)
    lab.sample(after_ms=SECOND_MS)
    assert "cpu" not in lab.amounts()

    assert "cpu" in lab.sample(after_ms=MINUTE_MS).amounts()


@pytest.mark.rows("S3-19")
@pytest.mark.parametrize(
    ("terms", "sample", "told"),
    [
        ({"is_enabled": False}, {}, ("enabled", "true", "false")),
        ({"mode": "offload_only"}, {}, ("mode", "a mode that lends", "offload_only")),
        (
            {"hours": Hours(from_minute=22 * 60, to_minute=7 * 60, days=(0, 1))},
            {},
            ("hours", "22:00-07:00 mon,tue", "mon 12:00"),
        ),
        ({}, {"is_on_battery": True}, ("battery_min_percent", "mains", "on battery")),
        (
            {"battery_min_percent": 50},
            {"is_on_battery": True, "battery_percent": 49},
            ("battery_min_percent", "50 %", "on battery, 49 %"),
        ),
        ({}, {"temperature_centi": 8_500}, ("temperature_max", "80 °C", "85 °C")),
    ],
)
def test_a_closed_machine_lends_nothing_and_suspends_what_was_lent(terms, sample, told):
    lab = Lab(**terms).sample(**sample)

    assert lab.amounts() == {}
    assert lab.reasons() == {"all": told}
    assert lab.state() == "closed"
    way = lab.way()
    assert (way.action, way.because.threshold) == ("suspend", told[0])
    assert lab.way(after_ms=10 * MINUTE_MS).action == "stop"


def test_on_battery_above_the_level_and_below_the_heat_it_lends():
    lab = Lab(battery_min_percent=50)

    assert lab.sample(is_on_battery=True, battery_percent=50, temperature_centi=8_499).amounts()


def test_heat_ends_five_degrees_below_where_it_begins():
    lab = Lab().sample(temperature_centi=8_600)
    assert lab.sample(temperature_centi=8_000).state() == "closed"
    assert lab.sample(temperature_centi=7_999).state() == "open"

    assert lab.sample(temperature_centi=8_400).state() == "open"
    assert lab.sample(temperature_centi=None).state() == "open"


def test_the_hours_close_on_time_between_two_samples():
    lab = Lab(hours=Hours(from_minute=0, to_minute=NOON + 1)).sample()
    lab.now_ms += MINUTE_MS - 1
    assert lab.state() == "open"
    lab.now_ms += 1

    assert lab.state() == "closed"


def test_a_pause_ends_by_itself_or_by_word():
    lab = Lab().sample()
    lab.lending.pause(lab.now_ms + MINUTE_MS)
    assert lab.state() == "paused"
    assert lab.reasons() == {"all": ("paused", "not paused", "paused for 1m more")}
    assert lab.way().action == "suspend"
    lab.now_ms += MINUTE_MS
    assert (lab.state(), lab.way().action) == ("open", "none")
    lab.lending.pause()
    lab.now_ms += 2 * MINUTE_MS
    assert lab.reasons() == {"all": ("paused", "not paused", "paused")}
    lab.lending.resume()

    assert lab.state() == "open"


def test_it_looks_more_often_while_something_is_lent():
    lab = Lab().sample()

    assert lab.lending.next_look_ms(is_lent=False) == lab.now_ms + MINUTE_MS
    assert lab.lending.next_look_ms(is_lent=True) == lab.now_ms + 10 * SECOND_MS


# --- Keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "wanted_ms"),
    [("conservative", 600_000), ("predictive", 120_000), ("balanced", 0), ("aggressive", 0)],
)
def test_a_policy_waits_until_the_keys_are_quiet(policy, wanted_ms):
    lab = Lab(policy=policy).sample(idle_ms=wanted_ms)
    assert lab.state() == "open"
    lab.sample(idle_ms=max(wanted_ms - 1, 0))

    assert lab.state() == ("yielding" if wanted_ms else "open")
    assert lab.way().action == ("suspend" if wanted_ms else "none")


def test_the_owners_word_on_quiet_wins_over_the_policys():
    assert Lab(quiet_ms=0, policy="conservative").sample(idle_ms=0).state() == "open"
    lab = Lab(quiet_ms=90_000).sample(idle_ms=5_000)

    assert lab.reasons() == {"all": ("quiet", "1m30s", "5s since the last key")}


def test_keys_that_nobody_sees_do_not_count():
    assert Lab(quiet_ms=90_000).sample(idle_ms=None).state() == "open"


@pytest.mark.parametrize("terms", [{"mode": "share_and_offload"}, {"yield_to": "ignore"}])
def test_keys_stop_offers_but_not_what_runs_where_nothing_gives_way(terms):
    lab = Lab(quiet_ms=90_000, **terms).sample(idle_ms=0)

    assert lab.amounts() == {}
    assert lab.way().action == "none"


# --- Pressure ------------------------------------------------------------------------------------


def test_a_short_peak_disturbs_nothing_and_a_long_one_suspends():
    lab = busy(Lab().sample(), looks=2)
    assert lab.way().action == "none"
    way = busy(lab, looks=1).way()

    assert way.action == "suspend"
    assert (way.because.kind, way.because.threshold, way.because.limit) == (
        "all",
        "cpu_pressure_high",
        "80 %",
    )
    assert way.because.measured == "87.5 %"
    assert lab.state() == "yielding"
    (no,) = lab.admits(memory_bytes=1).reasons
    assert no == way.because
    without = busy(Lab(a_machine(gpus=0)).sample(gpus=()), cpu=1_000, gpus=())
    assert (without.amounts(), list(without.reasons())) == ({}, ["all"])


def test_pressure_on_cores_keeps_cores_back_and_lends_gpus_with_a_core_each():
    lab = busy(Lab(reserved_cpu_milli=1_000).sample())

    assert list(lab.amounts()) == ["memory", "gpu0", "gpu1", "storage", "licence:matlab"]
    assert lab.reasons()["cpu"][0] == "cpu_percent_max"
    assert lab.way().spares_gpus
    assert lab.admits(gpus=2, cpu_milli=2_000, memory_bytes=1).reasons == ()
    threshold, offered = lab.admits(gpus=2, cpu_milli=2_001).reasons
    assert (threshold.threshold, offered.limit) == ("cpu_percent_max", "2 cores")
    lab.lease(Resources(cpu_milli=14_500), shared=False)
    assert lab.admits(gpus=1, cpu_milli=501).reasons
    assert not lab.admits(gpus=1, cpu_milli=500).reasons


@pytest.mark.parametrize(
    "also", [{"idle_ms": 0}, {"memory": 900}, {"gpus": (a_gpu(0), a_gpu(1, used=950))}]
)
def test_beside_other_signs_of_the_owner_gpus_stay_back_too(also):
    lab = busy(Lab(quiet_ms=90_000).sample(), cpu=1_000, **also)

    assert (lab.amounts(), lab.way().spares_gpus) == ({}, False)


def test_cores_that_are_busy_are_not_lent_but_for_one_beside_each_gpu():
    lab = Lab().sample(cpu=500)

    assert lab.reasons()["cpu"] == ("cpu_percent_max", "30 %", "50 %")
    assert lab.admits(gpus=1, cpu_milli=1_000).reasons == ()
    assert lab.admits(gpus=1, cpu_milli=1_001).reasons
    assert lab.admits(cpu_milli=1).reasons
    assert lab.way().action == "none"


def test_pressure_begins_above_the_high_number_and_ends_below_the_low_one():
    long_ms = 10**10  # After which the average is what is measured.
    assert Lab().sample(cpu=800).way().action == "none"
    lab = Lab().sample(cpu=801)
    assert lab.way().because.limit == "80 %"
    assert lab.sample(after_ms=long_ms, cpu=300).way().because.limit == "30 %"
    assert lab.way().because.threshold == "cpu_percent_max"

    assert lab.sample(after_ms=long_ms, cpu=299).way().action == "none"


def test_work_goes_on_below_the_low_number_and_not_before():
    lab = busy(Lab().sample())
    assert busy(lab, cpu=310).way().action == "suspend"
    assert busy(lab, cpu=290).way().action == "none"

    assert busy(lab, cpu=310).way().action == "none"


@pytest.mark.parametrize(
    ("thresholds", "policy", "used", "begins", "stays"),
    [
        ({}, "balanced", 950, ("cpu_pressure_high", "80 %"), ("cpu_percent_max", "30 %")),
        (
            {"cpu_pressure_low_milli": 400},
            "balanced",
            950,
            ("cpu_pressure_high", "80 %"),
            ("cpu_pressure_low", "40 %"),
        ),
        (
            {"cpu_used_max_milli": 900},
            "balanced",
            950,
            ("cpu_percent_max", "90 %"),
            ("cpu_percent_max", "90 %"),
        ),
        (
            {"cpu_pressure_low_milli": 400},
            "conservative",
            950,
            ("cpu_percent_max", "30 %"),
            ("cpu_percent_max", "30 %"),
        ),
    ],
)
def test_the_key_that_is_told_is_the_one_whose_number_is_told(
    thresholds, policy, used, begins, stays
):
    lab = Lab(policy=policy, **thresholds).sample(cpu=used)
    first = lab.way().because
    second = lab.sample(after_ms=SECOND_MS, cpu=used).way().because

    assert (first.threshold, first.limit) == begins
    assert (second.threshold, second.limit) == stays


def test_who_lends_up_to_a_number_is_not_pressed_below_it():
    lab = busy(Lab(cpu_used_max_milli=950).sample(), cpu=900)

    assert lab.way().action == "none"
    assert lab.amounts()["cpu"] == 1_600


def test_what_counts_as_idle_is_no_pressure_even_above_the_low_number():
    lab = busy(Lab(memory_pressure_low_milli=100).sample(), memory=900)
    assert lab.way().action == "stop"

    assert busy(lab, memory=450).way().action == "none"


def test_pressure_on_memory_stops_because_suspended_work_still_holds_it():
    lab = busy(Lab().sample(), memory=900)

    assert lab.way().action == "stop"
    assert lab.way().because.threshold == "memory_percent_max"


def test_the_busiest_device_is_the_pressure_on_gpus():
    lab = busy(Lab().sample(), gpus=(a_gpu(0), a_gpu(1, used=950)))

    assert lab.way().because.threshold == "gpu_pressure_low"
    assert busy(lab, gpus=()).way().action == "none"


def test_one_kind_that_calms_down_does_not_hide_another():
    lab = busy(Lab().sample(), cpu=1_000, gpus=(a_gpu(0, used=1_000), a_gpu(1)))
    lab = busy(lab, cpu=0, gpus=(a_gpu(0, used=500), a_gpu(1)))

    assert lab.way().because.threshold == "gpu_pressure_low"


def test_suspended_work_is_stopped_after_its_time_and_the_time_starts_anew():
    lab = busy(Lab(suspended_ms_max=5 * MINUTE_MS).sample())
    assert lab.way().action == "suspend"
    assert lab.way(after_ms=5 * MINUTE_MS - 1).action == "suspend"
    assert lab.way(after_ms=1).action == "stop"
    assert busy(lab, cpu=0).way().action == "none"

    assert busy(lab).way().action == "suspend"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_each_policy_has_its_patience(policy):
    lab = busy(Lab(policy=policy).sample())
    assert lab.way().action == "suspend"

    assert lab.way(after_ms=POLICIES[policy].suspended_ms_max - 1).action == "suspend"
    assert lab.way(after_ms=1).action == "stop"


def test_conservative_gives_way_as_soon_as_the_machine_is_not_idle():
    assert busy(Lab(policy="balanced").sample(), cpu=350).way().action == "none"
    way = busy(Lab(policy="conservative").sample(), cpu=350).way()

    assert (way.action, way.because.threshold, way.because.limit) == (
        "suspend",
        "cpu_percent_max",
        "30 %",
    )


def test_the_owner_may_want_work_stopped_at_once_or_left_alone():
    assert busy(Lab(yield_to="stop").sample()).way().action == "stop"
    assert busy(Lab(yield_to="ignore").sample()).way().action == "none"
    assert busy(Lab(yield_to="ignore").sample()).state() == "open"


@pytest.mark.parametrize("mode", sorted(MODES))
def test_each_mode_lends_and_gives_way_as_its_table_says(mode):
    lab = Lab(mode=mode).sample()
    assert bool(lab.amounts()) == MODES[mode].lends
    if MODES[mode].lends:
        assert (busy(lab).way().action == "suspend") == MODES[mode].gives_way


def test_new_terms_count_at_once():
    lab = busy(Lab().sample(), cpu=700)
    assert lab.way().action == "none"
    lab.change(thresholds=Thresholds(cpu_pressure_high_milli=600))
    assert lab.way().action == "suspend"
    lab.change(thresholds=Thresholds(cpu_pressure_high_milli=900))

    assert lab.way().action == "none"


# --- Habits --------------------------------------------------------------------------------------


def test_predictive_learns_the_hours_of_the_owner_and_keeps_them():
    lab = Lab(policy="predictive", quiet_ms=0)
    for _ in range(61):  # Noon to one o'clock: somebody types.
        lab.sample(after_ms=MINUTE_MS, idle_ms=0)
    for _ in range(61):
        lab.sample(after_ms=MINUTE_MS, idle_ms=HOUR_MS)
    assert lab.state() == "open"
    saved = lab.lending.habits.bins
    again = Lab(policy="predictive", quiet_ms=0)
    again.lending = Lending(again.total, again.terms, habits=saved)

    assert again.sample(idle_ms=HOUR_MS).reasons() == {
        "all": ("policy", "50 %", "usually active 100 % of this hour")
    }
    assert again.way().action == "none"
    again.change(policy="balanced")
    assert again.state() == "open"


def test_half_of_an_hour_is_not_more_than_half():
    lab = Lab(policy="predictive")
    states = []
    for expected in (500, 501):
        lab.lending = Lending(lab.total, lab.terms, habits=(expected,) * HOURS)
        states.append(lab.sample().state())

    assert states == ["open", "closed"]


def test_load_is_activity_too_and_memory_is_not():
    lab = Lab(policy="predictive")
    for _ in range(59):
        lab.sample(after_ms=MINUTE_MS, cpu=300, memory=900)
    for _ in range(61):
        lab.sample(after_ms=MINUTE_MS, memory=900)
    lab.sample(after_ms=HOUR_MS)

    assert lab.lending.habits.expected_milli(NOON + 30) == 1_000
    assert lab.lending.habits.expected_milli(NOON + 90) == 0


def test_a_machine_of_nothing_lends_nothing():
    lab = Lab(Resources()).sample(cpu_total_milli=0, memory_total_bytes=0, gpus=())

    assert lab.amounts() == {}
    assert a_machine().gpus
