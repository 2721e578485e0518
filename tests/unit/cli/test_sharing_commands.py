"""`offer`, `shared-status`, `jobs --queue` and their kin, against a canned agent."""

import json
import sys

import msgspec
import pytest

from distributed_grid.model.booking import Booking
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.lending import Offer, Withheld
from distributed_grid.model.resources import Request
from distributed_grid.wire.api import Explanation
from distributed_grid.wire.sharing import AllocationView, OwnerUse, Queue, QueueEntry
from tests.agent_stand_in import STARTED_MS, CannedAgent, a_view, serving

GIB = 1 << 30
LATER_MS = STARTED_MS + 300_000


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def an_offer(kind: str, amount: int, total: int, **fields) -> Offer:
    return Offer(kind=kind, amount=amount, total=total, made_ms=STARTED_MS, expires_ms=LATER_MS,
                 **fields)  # fmt: skip


OFFERS = (
    an_offer("cpu", 6_500, 8_000),
    an_offer("gpu", 1_000, 2_000, device="GPU-5f", memory_free_bytes=20 * GIB,
             memory_total_bytes=24 * GIB),
    an_offer("memory", 12 * GIB, 16 * GIB),
    an_offer("storage", 3 * GIB // 2, 100 * GIB),
    an_offer("tpu", 4_000, 4_000),
)  # fmt: skip
LOANS = (
    AllocationView(request_id=job_id_of("train"), name="train", kind="gpu", amount=1_000,
                   allocated_ms=STARTED_MS, devices=("GPU-7a",), is_suspended=True, user="ada"),
    AllocationView(request_id=job_id_of("fit"), name="fit", kind="memory", amount=4 * GIB,
                   allocated_ms=STARTED_MS, expires_ms=LATER_MS),
)  # fmt: skip
WITHHELD = (
    Withheld(kind="cpu", threshold="cpu_percent_max", limit="30 %", measured="90 %"),
    Withheld(kind="gpu", threshold="gpu_memory_min_mb", limit="1 GiB", measured="512 MiB",
             device="GPU-5f"),
    Withheld(kind="all", threshold="hours", limit="22:00-07:00", measured=""),
)  # fmt: skip


def lend(agent: CannedAgent, **fields) -> None:
    agent.lends = msgspec.structs.replace(agent.lends, **fields)


@pytest.mark.rows("S3-44", "S3-45", "S3-46", "S3-81", "S3-87")
def test_the_tables_of_shared_status_show_offers_and_allocations(agent, grid):
    lend(agent, offers=OFFERS, allocations=LOANS)
    done = grid("shared-status")
    lines = [" ".join(line.split()) for line in done.stdout.strip().splitlines()]

    assert done.returncode == 0, done.stderr
    assert "Resource Offers" in lines
    assert "Node Type Available/Total Expires" in lines
    assert "desk cpu 6.5 cores / 8 cores 2023-11-14 22:18:20" in lines
    assert "desk gpu 1 GPU GPU-5f (VRAM 20 GiB/24 GiB) 2023-11-14 22:18:20" in lines
    assert "desk memory 12 GiB / 16 GiB 2023-11-14 22:18:20" in lines
    assert "desk tpu 4 / 4 2023-11-14 22:18:20" in lines
    assert "Active Allocations" in lines
    assert "Request ID Node Type Amount Expires" in lines
    loan = f"train {job_id_of('train')[:12]} desk gpu 1 GPU (GPU-7a), suspended when it ends"
    assert loan in lines
    assert lines[-1].endswith("desk memory 4 GiB 2023-11-14 22:18:20")


@pytest.mark.rows("S3-58", "S3-59")
def test_shared_status_as_json_has_the_keys_of_the_seed(agent, grid):
    lend(agent, offers=OFFERS, allocations=LOANS, withheld=WITHHELD, not_joined=("gpu1",))
    shown = json.loads(grid("shared-status", "--json").stdout)
    cpu, gpu, memory, storage, tpu = shown["offers"]
    until = "2023-11-14T22:18:20+00:00"

    assert gpu == {
        "node_id": "desk", "resource_type": "gpu", "amount": 1, "total": 2, "available_until": until,
        "conditions": {"gpu_id": "GPU-5f", "memory_free_mb": 20_480, "memory_total_mb": 24_576,
                       "total": 2},
    }  # fmt: skip
    assert (cpu["amount"], cpu["conditions"]) == (6.5, {"total": 8})
    assert (memory["amount"], memory["total"]) == (12, 16)
    assert (storage["resource_type"], storage["amount"]) == ("disk", 1.5)
    assert (tpu["resource_type"], tpu["amount"]) == ("tpu", 4)
    first, second = shown["allocations"]
    assert first["request_id"] == job_id_of("train")
    assert (first["expires_at"], second["expires_at"]) == (None, until)
    assert second["allocated_at"] == "2023-11-14T22:13:20+00:00"
    assert shown["withheld"][0]["measured"] == "90 %"
    assert shown["not_joined"] == ["gpu1"]


@pytest.mark.rows("S3-84", "S3-86", "S3-90")
def test_without_offers_the_thresholds_in_the_way_are_shown_with_both_numbers(
    agent, grid, tmp_path
):
    lend(agent, withheld=WITHHELD, not_joined=("attic",))
    (tmp_path / "c.yaml").write_text("nodes: [desk, gpu1]\n")
    done = grid("shared-status", "-c", "c.yaml")

    assert done.stdout.splitlines() == [
        "No resource offers available",
        "  desk: cpu: cpu_percent_max is 30 %, measured 90 %",
        "  desk: gpu GPU-5f: gpu_memory_min_mb is 1 GiB, measured 512 MiB",
        "  desk: hours is 22:00-07:00",
        "No active allocations",
        "attic: not joined; here: grid ticket, on attic: grid join TICKET; or by ssh: grid bootstrap attic",
        "gpu1: not joined; here: grid ticket, on gpu1: grid join TICKET; or by ssh: grid bootstrap gpu1",
    ]


def test_an_owner_who_does_not_lend_is_told(agent, grid):
    lend(agent, is_enabled=False, state="closed")

    assert "lending is switched off (resource_sharing.enabled)" in grid("shared-status").stdout


@pytest.mark.parametrize("words", [["offer"], ["offer", "show"]], ids=" ".join)
def test_offer_shows_what_the_owner_uses_and_what_is_booked(agent, grid, words):
    use = OwnerUse(at_ms=STARTED_MS, cpu_used_milli=153, memory_used_milli=400,
                   gpu_used_milli=(("GPU-5f", 20),), idle_ms=90_000)  # fmt: skip
    request = Request(cpu_milli=4_000, memory_bytes=GIB, storage_bytes=GIB, custom=(("tpu", 1_000),),
                      gpus=GpuRequest(milli=2_000))  # fmt: skip
    booked = Booking(name="lecture", request=request, from_ms=STARTED_MS, until_ms=LATER_MS)
    lend(agent, owner=use, bookings=(booked,), state="paused", paused_until_ms=LATER_MS)
    shown = grid(*words).stdout

    assert "paused until 2023-11-14 22:18:20" in shown
    assert ("15 % of the cores, 40 % of the memory, 2 % of GPU-5f, last touched 1m30s ago") in shown
    assert (
        "lecture: 4 cores, 1 GiB, 1 GiB, 2 GPUs, 1 tpu for --booking lecture, "
        "2023-11-14 22:13:20 to 2023-11-14 22:18:20"
    ) in shown


def test_offer_as_json_is_the_whole_status(agent, grid):
    lend(agent, offers=OFFERS)
    shown = json.loads(grid("offer", "--json").stdout)

    assert shown["offers"][0]["amount"] == 6_500
    assert json.loads(grid("offer", "show", "--json").stdout) == shown
    assert "nothing was measured yet" in grid("offer").stdout


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (["pause"], {"action": "pause", "for_ms": 0}),
        (["pause", "--for", "2h"], {"action": "pause", "for_ms": 7_200_000}),
        (["resume"], {"action": "resume"}),
        (["set", "thresholds.cpu_percent_max", "50"],
         {"action": "set", "key": "thresholds.cpu_percent_max", "value": "50"}),
        (["set", "resource_sharing.mode", "offload_only"],
         {"action": "set", "key": "mode", "value": "offload_only"}),
    ],
)  # fmt: skip
def test_the_owners_word_reaches_the_agent(agent, grid, words, change):
    done = grid("offer", *words, "--json")
    [(_, asked)] = agent.asked

    assert json.loads(done.stdout)["node"] == "desk"
    assert {key: getattr(asked, key) for key in change} == change


def test_a_booking_is_given_back_once(agent, grid):
    booked = Booking(name="lecture-1", request=Request(cpu_milli=1), from_ms=1, until_ms=2)
    lend(agent, bookings=(booked,))

    assert grid("offer", "release", "lecture-1").returncode == 0
    assert agent.asked == [("cancel_booking", "lecture-1")]
    missing = grid("offer", "release", "other")
    assert (missing.returncode, "no booking 'other'" in missing.stderr) == (3, True)
    assert grid("offer", "release", "").returncode == 2


@pytest.mark.rows("S3-104")
def test_what_is_reserved_reaches_the_agent(agent, grid):
    done = grid(
        "offer", "reserve", "lecture", "--from", "2026-12-24 18:00", "--until", "2026-12-24 20:00", "--cpus", "4",
        "--memory", "8GiB", "--gpus", "H100:2", "--resource", "tpu=1", "--project", "vision",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [(_, booking)] = agent.asked

    assert done.stdout.startswith(
        "lecture: 4 cores, 8 GiB, 2 GPUs, 1 tpu for vision, 2026-12-24 18"
    )
    assert booking.until_ms - booking.from_ms == 7_200_000
    assert booking.request.gpus == GpuRequest(milli=2_000, model="H100")
    assert (booking.project, booking.user) == ("vision", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--from", "18:00", "--until", "19:00"], "say what to keep"),
        (["--from", "25:00", "--until", "19:00", "--cpus", "1"], "25:00"),
        (["--from", "2030-01-02 10:00", "--until", "2030-01-01 10:00", "--cpus", "1"], "end after"),
        (["--from", "18:00", "--until", "19:00", "--resource", "tpu"], "KIND=N"),
    ],
)
def test_a_booking_that_makes_no_sense_is_refused_here(agent, grid, words, told):
    done = grid("offer", "reserve", "lecture", *words)

    assert done.returncode == 2
    assert told in done.stderr
    assert agent.asked == []


def an_entry(position: int, **fields) -> QueueEntry:
    usual = dict(position=position, id=job_id_of(f"j{position}"), name=f"j{position}", user="ada",
                 priority="medium", lifted="medium", project="", share_milli=250,
                 waited_ms=65_432)  # fmt: skip
    return QueueEntry(**{**usual, **fields})


def test_the_queue_is_shown_in_the_order_of_service(agent, grid):
    entries = (
        an_entry(1, lifted="high", project="vision"),
        an_entry(2, priority="low", lifted="low", is_shared=True, waits="an offer of gpu"),
    )
    agent.waiting = Queue(entries=entries, total=7)
    done = grid("jobs", "--queue", "--limit", "2")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]

    assert f"1 {job_id_of('j1')[:12]} j1 medium → high ada vision 25 % 1m5s its turn" in lines
    assert f"2 {job_id_of('j2')[:12]} j2 low, borrowed ada 25 % 1m5s an offer of gpu" in lines
    assert "7 wait" in done.stderr
    assert json.loads(grid("jobs", "--queue", "--json").stdout)["entries"][1]["position"] == 2


def test_an_empty_queue_is_told_and_filters_are_refused(agent, grid):
    assert "nothing waits" in grid("jobs", "--queue").stderr
    assert grid("jobs", "--queue", "--state", "running").returncode == 2


def test_explain_shows_what_decides_the_place(agent, grid):
    async def explain(word):
        return Explanation(
            id=job_id_of("j"), state="waiting", summary="it waits", position=3, priority="low",
            lifted="medium", share_milli=125, is_shared=True, user="ada", project="vision",
        )  # fmt: skip

    agent.explain = explain
    shown = grid("explain", "j").stdout

    assert "place in the queue: 3" in shown
    assert (
        "priority: low (counts as medium by now), borrowed, after the owner's work; "
        "vision holds 12.5 % of the machine"
    ) in shown


@pytest.mark.rows("S3-47")
def test_status_has_the_fields_of_a_cluster_beside_its_own(agent, grid):
    use = OwnerUse(at_ms=1, cpu_used_milli=1, memory_used_milli=1, gpu_used_milli=(("a", 250),))
    lend(agent, not_joined=("gpu1",), owner=use)
    shown = json.loads(grid("status", "--json").stdout)
    here, away = shown["nodes"]

    assert (shown["total_nodes"], shown["online_nodes"]) == (2, 1)
    assert (shown["total_gpus"], shown["available_gpus"]) == (2, 1.5)
    assert (here["name"], here["is_online"], here["gpu_count"], here["memory_gb"]) == (
        "desk", True, 2, 16,
    )  # fmt: skip
    assert (here["gpu_utilization"], len(here["load_average"])) == ([0.25, 0.0], 3)
    assert (away["name"], away["is_online"]) == ("gpu1", False)
    assert (shown["cpu_milli_total"], "last_update" in shown) == (8_000, True)
    assert "gpu1: not joined" in grid("status").stdout


def test_a_job_shows_what_decides_when_it_runs(agent, grid):
    view = a_view("j", priority="high", is_shared=True, project="vision", booking="lecture",
                  start_ms=STARTED_MS, deadline_ms=LATER_MS)  # fmt: skip
    agent.views[view.id] = view
    lines = [" ".join(line.split()) for line in grid("job", "j").stdout.splitlines()]

    assert "priority high, borrowed" in lines
    assert "not before 2023-11-14 22:13:20" in lines
    assert "deadline 2023-11-14 22:18:20" in lines


@pytest.mark.rows("S3-105")
def test_run_says_when_and_how_important(agent, grid):
    done = grid(
        "run", "--priority", "CRITICAL", "--project", "vision", "--start-at", "2040-01-01 10:00",
        "--deadline", "2040-01-01T12:00:00+00:00", "--preempt-signal", "10", "--booking", "b",
        "--detach", "tool",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (spec,) = agent.submitted

    assert (spec.priority, spec.project, spec.booking) == ("urgent", "vision", "b")
    assert (spec.start_ms, spec.deadline_ms) == (2_209_024_800_000, 2_209_032_000_000)
    assert (spec.preempt.signal, spec.is_shared) == (10, False)


def test_a_deadline_before_the_start_is_refused(agent, grid):
    done = grid("run", "--start-at", "2040-01-02 10:00", "--deadline", "2040-01-01 10:00", "tool")

    assert done.returncode == 2
    assert "a deadline after the start" in done.stderr


def test_every_name_of_a_signal_is_understood():
    from distributed_grid.client import importance

    assert {importance.signal_of(word) for word in ("SIGUSR1", "usr1", "10", 10)} == {10}
    assert importance.signal_of(None) == 15
    assert sys.platform != "linux" or importance.signal_of("RTMAX") == 64
