"""What the owner's machine offers, and how borrowed work gives way: with real processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.keeper_lab import wait_until
from tests.sharing_lab import LENDS, MACHINE, lending


@pytest.fixture(scope="module")
def lab():
    with lending() as made:
        yield made


def state_of(pid: int) -> str:
    """As the kernel has it: T is stopped, S sleeps."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.rows("S3-11")
def test_a_pause_suspends_what_is_lent_and_its_end_lets_it_go_on(lab):
    borrower = lab.borrow("cpu", "1", "-j", "borrower", "sleep", "60")
    pid = lab.json("job", "borrower")["attempts"][0]["pid"]
    paused = lab.json("offer", "pause", "--for", "1h")
    wait_until(lambda: state_of(pid) == "T")
    shown = lab.json("shared-status")
    explained = lab("explain", "borrower").stdout
    lab("offer", "resume")
    wait_until(lambda: state_of(pid) != "T")
    story = lab.story("borrower")
    lab("cancel", "borrower")
    borrower.communicate(timeout=30)

    assert (paused["state"], paused["offers"]) == ("paused", [])
    assert shown["allocations"][0]["suspended"] is True
    assert b"it is suspended, the owner is back" in explained
    assert story[-2:] == ["suspended", "resumed"]


@pytest.mark.rows("S3-85", "S3-90")
def test_a_term_that_is_set_counts_at_once_and_says_which_threshold_stands_in_the_way(lab):
    lab("offer", "set", "thresholds.cpu_min_cores", "9")
    shown = lab("shared-status").stdout.decode()
    refused = lab("run-shared", "-r", "cpu", "-a", "1", "-w", "0.1", "true").stderr.decode()
    lab("offer", "set", "thresholds.cpu_min_cores", "1")

    assert "cpu: cpu_min_cores is at least 9 cores, measured 8 cores free" in shown
    assert "cpu_min_cores is at least 9 cores, measured 8 cores free" in refused
    assert lab("run-shared", "-r", "cpu", "-a", "1", "true").returncode == 0


def again(lab) -> None:
    """The agent is killed, and another one answers."""
    pid = lab.pid()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: lab.http_or_none("/health") and lab.pid() != pid)


def test_presets_and_terms_outlive_a_killed_agent_until_they_are_reset():
    busy = MACHINE.replace("}]}", "}], load: {cpu_percent: 100, gpu_percent: 100}}")
    with lending() as lab:
        lab("down")
        lab.file.write_text(busy + LENDS)
        lab.up()
        before = lab.json("offer")
        lab("offer", "all")
        again(lab)
        whole = lab.json("offer")
        ran = lab("run-shared", "-r", "cpu", "-a", "8", "-w", "5", "true").returncode
        words = lab("offer").stdout.decode()
        lab("offer", "nothing")
        again(lab)
        refused = lab("run-shared", "-r", "cpu", "-a", "1", "true").stderr
        lab("offer", "mine")
        again(lab)
        mine = lab("offer").stdout.decode()
        lab("offer", "idle")
        lab("offer", "set", "thresholds.cpu_percent_max", "90")
        again(lab)
        idle = lab.json("offer")
        after = lab.json("offer", "reset")

    assert [one["kind"] for one in before["offers"]] == []
    offered = {one["device"] or one["kind"]: one["amount"] for one in whole["offers"]}
    assert offered["cpu"] == 8_000
    assert {"H100#0000", "H100#0001", "H100#0002"} <= offered.keys()
    assert ran == 0
    assert "preset all; back to the configuration: grid offer reset" in words
    assert b"lab does not lend" in refused
    assert "mode is a mode that lends, measured offload_only" in mine
    assert idle["words"] == [["preset", "idle"], ["thresholds.cpu_percent_max", "90"]]
    assert "90 %" in {one["limit"] for one in idle["withheld"]}
    assert (after["words"], after["mode"], after["offers"]) == ([], before["mode"], [])


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("thresholds.cpu_percent_max", "150", "from 0 to 100"),
        ("hours", "25:00-07:00", "two times of a day"),
        ("reserve.cpus", "-1", "0 or more"),
        ("policy", "greedy", "conservative"),
        ("nothing", "1", "unknown key"),
    ],
)
def test_a_term_that_makes_no_sense_is_refused_with_its_path(lab, key, value, told):
    done = lab("offer", "set", "--", key, value)

    assert done.returncode == 2
    assert told in done.stderr.decode()
    assert f"resource_sharing{'' if key == 'nothing' else f'.{key}'}" in done.stderr.decode()


@pytest.mark.rows("S3-13", "S3-19", "S3-24", "S3-28")
def test_a_busy_owner_lends_nothing_and_both_numbers_are_told():
    busy = MACHINE.replace(
        "}]}", "}], load: {cpu_percent: 90, gpu_percent: 50, idle_seconds: 900}}"
    )
    with lending() as lab:
        lab("down")
        lab.file.write_text(busy + LENDS)
        lab.up()
        shown = lab.json("shared-status")
        done = lab("run-shared", "-r", "gpu", "-a", "1", "-w", "0.1", "true")

    assert [offer for offer in shown["offers"] if offer["resource_type"] in ("gpu", "cpu")] == []
    told = " ".join(
        f"{one['threshold']} {one['limit']} {one['measured']}" for one in shown["withheld"]
    )
    assert "90 %" in told
    assert (done.returncode, b"No resources available" in done.stderr) == (125, True)


@pytest.mark.rows("S3-68")
def test_a_gpu_that_its_owner_uses_is_not_offered_and_says_how_busy_it_is():
    busy = MACHINE.replace("}]}", "}], load: {gpu_percent: 50, idle_seconds: 900}}")
    with lending() as lab:
        lab("down")
        lab.file.write_text(
            busy + "resource_sharing: {max_offers_per_node: 20, mode: share_and_offload}\n"
        )
        lab.up()
        shown = lab.json("shared-status")

    assert {offer["resource_type"] for offer in shown["offers"]} >= {"cpu", "memory"}
    assert [
        (one["gpu_id"], one["threshold"], one["limit"], one["measured"])
        for one in shown["withheld"]
        if one["resource_type"] == "gpu"
    ] == [(f"H100#000{n}", "gpu_utilization_max", "20 %", "50 %") for n in range(3)]


def test_what_is_switched_off_lends_nothing_and_survives_the_owners_word():
    with lending("resource_sharing: {enabled: false}\n") as lab:
        done = lab("run-shared", "-r", "cpu", "-a", "1", "true")
        shown = lab("shared-status").stdout

    assert (done.returncode, b"lab does not lend" in done.stderr) == (125, True)
    assert b"No resource offers available" in shown
    assert b"lending is switched off" in shown


def test_a_pause_outlives_the_agent(lab):
    lab("offer", "pause", "--for", "1h")
    lab("down")
    lab.up()
    state = lab.json("offer")["state"]
    lab("offer", "resume")

    assert state == "paused"
