"""The commands and options of jobs across machines, against a canned agent."""

import json

import msgspec
import pytest

from distributed_grid.model.job import Shipment, Where
from distributed_grid.model.lending import Offer, Withheld
from distributed_grid.wire.across_api import DrainView, Safety
from distributed_grid.wire.api import Jobs
from tests.agent_stand_in import CannedAgent, a_view, an_attempt, serving
from tests.builders import a_node as a_record
from tests.mesh_stand_in import STARTED_MS, a_node


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def submitted(agent, grid, *options: str):
    done = grid("run", "--detach", *options, "true")
    assert done.returncode == 0, done.stderr
    return agent.submitted[-1]


# --- run ------------------------------------------------------------------------------------------


def test_where_a_job_runs_is_told_by_options(agent, grid):
    spec = submitted(
        agent, grid, "--node", "gpu1", "--node", "gpu2", "--on-class", "datacenter", "--label",
        "rack=r7", "--avoid", "attic", "--avoid", "class:laptop", "--avoid", "job:train", "--policy",
        "LocalityAware", "--locality", "zone", "--max-latency", "20ms", "--no-battery",
    )  # fmt: skip

    assert spec.require == Where(
        nodes=("gpu1", "gpu2"),
        classes=("datacenter",),
        labels=(("rack", "r7"),),
        latency_us_max=20_000,
    )
    assert spec.avoid == Where(nodes=("attic",), classes=("laptop",), jobs=("train",))
    assert (spec.policy, spec.locality, spec.battery_safe) == ("LocalityAware", "zone", False)


def test_how_it_is_kept_and_how_many_ranks_it_has_too(agent, grid):
    careful = ("--at-most-once", "--voters", "5")
    spec = submitted(agent, grid, *careful, "--copies", "2", "--gang", "8")

    assert (spec.at_most_once, spec.voters, spec.copies, spec.gang) == (True, 5, 2, 8)


@pytest.mark.parametrize(("option", "policy"), [("--spread", "Spread"), ("--binpack", "BestFit")])
def test_spread_and_binpack_are_policies(agent, grid, option, policy):
    assert submitted(agent, grid, option).policy == policy
    done = grid("run", option, "--policy", "Balanced", "true")
    assert done.returncode == 2
    assert "two orders of nodes" in done.stderr


def test_without_options_a_job_is_what_it_was(agent, grid):
    spec = submitted(agent, grid)

    assert spec.require == spec.avoid == Where()
    assert (spec.policy, spec.gang, spec.copies, spec.ship) == ("", 1, 0, None)


def test_a_label_said_twice_is_one(agent, grid):
    spec = submitted(agent, grid, "--label", "room=attic", "--label", "room=attic")

    assert spec.require.labels == (("room", "attic"),)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--label", "rack"), "KEY=VALUE"),
        (("--label", "room=attic", "--label", "room=cellar"), "room=attic and --label room=cellar"),
        (("--on-class", "phone"), "phone"),
        (("--gang", "2", "--array", "0-3"), "not both"),
        (("--output", "../x"), "within the job's directory"),
        (("--copies", "9"), "9"),
        (("--max-latency", "soon"), "span"),
    ],
)
def test_a_wrong_word_is_usage_and_nothing_is_submitted(agent, grid, options, says):
    done = grid("run", *options, "true")

    assert (done.returncode, agent.submitted) == (2, [])
    assert says in done.stderr


def test_files_are_taken_by_the_agent_before_the_job_is_submitted(agent, grid, tmp_path):
    spec = submitted(
        agent, grid, "--ship", "data", "--ship", "src", "--python-env", "uv.lock", "--output",
        "out/*.csv", "--output", "model.bin", "--overwrite",
    )  # fmt: skip
    [(what, wanted)] = agent.across.asked

    assert (what, wanted.directory) == ("pack", str(tmp_path))
    assert wanted.paths == (f"{tmp_path}/data", f"{tmp_path}/src")
    assert wanted.python_env == f"{tmp_path}/uv.lock"
    assert spec.ship == Shipment(manifest="c" * 64, size_bytes=10, files=2)
    assert (spec.python_env, spec.outputs) == ("e" * 64, ("out/*.csv", "model.bin"))
    assert spec.overwrite


def test_a_machine_that_has_the_only_copy_is_asked_to_stay_on(agent, grid):
    agent.bytes_left = 140 << 20
    done = grid("run", "--detach", "true")

    assert "keep this machine on: 140 MiB of job true left" in done.stderr
    assert len(done.stdout.strip()) == 64


def test_who_leaves_a_directory_behind_that_is_only_here_is_told(agent, grid):
    agent.is_only_here = True
    word = "grid: keep this machine on: the directory of job true is only here so far"

    assert word in grid("run", "--detach", "true").stderr
    assert word not in grid("run", "true").stderr
    agent.across.safety = [Safety(id="a" * 64, copies=2, is_safe=True)]
    assert word not in grid("run", "--detach", "--wait-safe", "true").stderr


def test_wait_safe_goes_on_once_another_machine_has_it(agent, grid):
    agent.across.safety = [Safety(id="a" * 64, copies=1, bytes_left=5), Safety(id="a" * 64, copies=3,
                                                                               is_safe=True)]  # fmt: skip
    done = grid("run", "--detach", "--wait-safe", "true")

    assert "job true is safe: 3 machines have it" in done.stderr
    assert len(agent.across.asked) == 2


def test_wait_safe_does_not_count_who_keeps_what_has_ended(agent, grid):
    agent.across.safety = [Safety(id="a" * 64, copies=0, is_safe=True)]
    done = grid("run", "--detach", "--wait-safe", "true")

    assert (done.returncode, "0 machines" in done.stderr) == (0, False)


def test_wait_safe_does_not_call_safe_what_cannot_be(agent, grid):
    why = "its directory cannot travel: it has a pipe"
    agent.across.safety = [Safety(id="a" * 64, copies=3, why=why)]
    done = grid("run", "--detach", "--wait-safe", "true")

    assert f"job true is not safe: {why}; keep this machine on" in done.stderr
    assert (done.returncode, len(agent.across.asked)) == (0, 1)


def test_what_borrows_can_say_where_as_well(agent, grid):
    done = grid("run-shared", "-r", "cpu", "-a", "1", "-n", "gpu1", "--avoid", "class:laptop",
                "--no-battery", "--spread", "true")  # fmt: skip
    [spec] = agent.submitted

    assert done.returncode == 0, done.stderr
    assert (spec.prefer.nodes, spec.avoid.classes) == (("gpu1",), ("laptop",))
    assert (spec.battery_safe, spec.policy) == (False, "Spread")


def test_what_borrows_can_insist_on_another_node_of_the_mesh(agent, grid):
    words = ("run-shared", "-r", "cpu", "-a", "1", "-n", "attic", "--strict-nodes", "true")
    alone = grid(*words)
    assert (alone.returncode, agent.submitted) == (125, [])
    assert "attic: not joined" in alone.stderr
    agent.mesh.members.append(a_node("attic"))

    assert grid(*words).returncode == 0
    assert agent.submitted[-1].require.nodes == ("attic",)
    agent.lends = msgspec.structs.replace(agent.lends, is_enabled=False)
    assert grid("run-shared", "-r", "cpu", "-a", "1", "true").returncode == 0  # Others may lend.


def test_when_nobody_lends_every_node_of_the_mesh_says_why(agent, grid):
    agent.mesh.members += [a_node("attic"), a_node("nobody"), a_node("gone", health="dead")]
    agent.mesh.members[2] = msgspec.structs.replace(agent.mesh.members[2], id="nobody")
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)
    done = grid("run-shared", "-r", "cpu", "-a", "1", "-n", "away", "-w", "0.05", "true")

    assert done.returncode == 125
    for reason in ("desk: offers 0 cpu", "attic: offers 0 cpu", "nobody: there is no node",
                   "away: not joined"):  # fmt: skip
        assert reason in done.stderr
    assert "gone:" not in done.stderr


def test_what_others_offer_is_shown_too(agent, grid):
    agent.mesh.members.append(a_node("attic", offers=("cpu 2", "memory 8GiB")))
    agent.mesh.members.append(a_node("cellar"))
    text = grid("shared-status").stdout

    assert "attic: offers cpu 2, memory 8GiB" in text
    assert "cellar: offers nothing" in text
    shown = json.loads(grid("shared-status", "--json").stdout)
    assert shown["elsewhere"] == {"attic": ["cpu 2", "memory 8GiB"], "cellar": []}
    assert json.loads(grid("shared-status", "--node", "attic", "--json").stdout)["node"] == "attic"
    assert grid("shared-status", "--node", "nobody").returncode == 3


# --- jobs across machines -------------------------------------------------------------------------


def test_job_alone_shows_it_and_show_is_the_same(agent, grid):
    attic = a_node("attic")
    holders = (attic.id, "c" * 64)
    view = a_view("train", home="a" * 64, holders=holders, gang=4, at_most_once=True)
    agent.views[view.id] = view
    agent.mesh.members.append(attic)
    shown = grid("job", "train")

    assert shown.stdout == grid("job", "show", "train").stdout
    assert "looked after by aaaaaaaaaaaa" in lines(shown.stdout)
    assert "copies on attic, cccccccccccc" in lines(shown.stdout)
    assert "gang 4 ranks" in lines(shown.stdout)
    assert "at most once yes" in lines(shown.stdout)
    assert json.loads(grid("job", "--json", "train").stdout)["home"] == "a" * 64
    assert json.loads(grid("job", "train", "--json").stdout)["gang"] == 4


def test_copies_of_a_job_of_this_machine_are_on_machines_with_names(agent, grid):
    attic = a_node("attic")
    view = a_view("train", holders=(attic.id,))
    agent.views[view.id] = view
    agent.mesh.members.append(attic)

    assert "copies on attic" in lines(grid("job", "train").stdout)


@pytest.mark.parametrize(("home", "is_told"), [("", False), ("a" * 64, True)])
def test_a_list_of_jobs_says_where_they_are_unless_one_machine_is_alone(agent, grid, home, is_told):
    view = a_view("train", home=home, attempts=(an_attempt(),))
    agent.views[view.id] = view

    assert ("node" in grid("jobs").stdout.split()) == is_told


def test_job_says_who_alone_has_what_it_wrote_as_long_as_that_is_so(agent, grid):
    only, kept = a_view("only", output_only_on="attic"), a_view("kept")
    agent.views |= {only.id: only, kept.id: kept}

    assert "output only on attic" in lines(grid("job", "only").stdout)
    assert "only on" not in grid("job", "kept").stdout


def test_force_asks_first_and_says_what_may_happen(agent, grid):
    view = a_view("train", state="waiting", reason="stuck: needs cellar", at_most_once=True)
    agent.views[view.id] = view
    no = grid("job", "force", "train", stdin="n\n")

    assert no.returncode == 130
    assert "train is waiting (stuck: needs cellar); forced, it may run twice" in no.stderr
    assert agent.across.asked == []
    yes = grid("job", "force", "train", stdin="y\n")
    assert (yes.returncode, lines(yes.stdout)) == (0, [f"{view.id[:12]} train waiting"])
    assert grid("job", "force", "--yes", "train", "--json").returncode == 0
    assert agent.across.asked == [("force", "train")] * 2
    assert grid("job", "force", "--yes", "ghost").returncode == 3


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"state": "waiting"}, "train is no at-most-once job"),
        ({"state": "succeeded", "at_most_once": True}, "train is succeeded, and not stuck"),
    ],
)
def test_nobody_is_asked_to_force_what_is_refused_whatever_they_say(agent, grid, facts, says):
    view = a_view("train", **facts)
    agent.views[view.id] = view
    done = grid("job", "force", "train", stdin="y\n")

    assert (done.returncode, agent.across.asked) == (5, [])
    assert says in done.stderr
    assert "Force it?" not in done.stderr


def test_a_job_that_is_called_force_is_meant_by_name(agent, grid):
    agent.views[a_view("force").id] = a_view("force")

    assert grid("job", "name:force").returncode == 0
    assert grid("job", "force").returncode == 2
    assert grid("job", "--help").returncode == 0


def test_requeue_takes_several_and_one_wrong_word_does_not_keep_the_others(agent, grid):
    for name in ("one", "two"):
        agent.views[a_view(name).id] = a_view(name, state="lost")
    done = grid("requeue", "one", "ghost", "two")

    assert done.returncode == 3
    assert agent.across.asked == [("requeue", "one"), ("requeue", "two")]
    assert [line.split()[1:] for line in done.stdout.splitlines()] == [
        ["one", "waiting"],
        ["two", "waiting"],
    ]
    shown = json.loads(grid("requeue", "one", "--json").stdout)
    assert [view["state"] for view in shown] == ["waiting"]


def test_without_an_agent_the_exit_code_says_so(clean_env, tmp_path, grid):
    clean_env["GRID_HOME"] = str(tmp_path)
    for words in (
        ("top",),
        ("drain", "x"),
        ("undrain", "x"),
        ("requeue", "x"),
        ("job", "force", "x"),
    ):
        assert grid(*words).returncode == 4


# --- nodes ----------------------------------------------------------------------------------------


def test_drain_gives_work_away_and_wait_stays_until_it_is_gone(agent, grid):
    busy = DrainView(id="a" * 64, name="attic", state="draining", jobs_running=2, jobs_waiting=1)
    agent.across.drained = [busy, busy, msgspec.structs.replace(busy, state="drained")]

    assert grid("drain", "attic").stdout == "attic is being drained: 2 running, 1 waiting\n"
    done = grid("drain", "attic", "--wait")
    assert done.stdout == "attic is drained: it has no work, and takes none\n"
    assert [timeout_ms > 0 for _, timeout_ms in agent.across.asked] == [False, True, True]
    assert json.loads(grid("drain", "attic", "--json").stdout)["state"] == "drained"
    assert grid("drain", "attic", "--now").returncode == 0
    assert agent.across.asked[-1] == ("drain", 0, "now")
    assert grid("undrain", "attic").stdout == "desk takes work\n"
    assert grid("drain", "nobody").returncode == 3


def test_drain_tells_of_outputs_that_are_still_on_their_way(agent, grid):
    left = DrainView(id="a" * 64, name="attic", state="draining", jobs_leaving=2)
    agent.across.drained = [left]

    said = "attic is being drained: 0 running, 0 waiting, 2 ended and not all brought home yet\n"
    assert grid("drain", "attic").stdout == said


def test_status_shows_what_runs_and_waits_on_every_node(agent, grid):
    assert "attic" not in grid("status").stdout
    agent.mesh.mesh = "m" * 64
    agent.mesh.members.append(a_node("attic", jobs_running=7, jobs_waiting=9, gpus_total=2))
    agent.mesh.members.append(a_node("cellar", health="dead", note="on an expired certificate"))
    text = lines(grid("status").stdout)

    assert "attic alive 7 9 6.5/8" in text
    assert "cellar dead 1 0 6.5/8 on an expired certificate" in text
    shown = json.loads(grid("status", "--json").stdout)
    assert (shown["total_nodes"], shown["online_nodes"], shown["total_gpus"]) == (3, 2, 4)
    assert [node["name"] for node in shown["nodes"]] == ["desk", "attic", "cellar"]
    assert shown["nodes"][1]["jobs_waiting"] == 9
    assert shown["jobs_running"] == 1
    assert "attic" in grid("status", "--node", "attic").stdout
    assert json.loads(grid("status", "--node", "attic", "--json").stdout)["name"] == "attic"
    assert grid("status", "--node", "nobody").returncode == 3


def test_top_shows_nodes_and_jobs_once_into_a_pipe(agent, grid):
    agent.mesh.mesh = "m" * 64
    agent.mesh.members.append(a_node("attic", jobs_running=2, gpus_total=2, gpus_free_milli=500))
    agent.views = {
        view.id: view
        for view in (
            a_view("train", state="running", node="attic", user="ada@desk"),
            a_view("wait", state="waiting", node=None),
            a_view("over"),
        )
    }
    text = lines(grid("top").stdout)

    assert text[0] == "2 nodes; 13 of 16 cores free; 3 running, 0 waiting"
    assert any(
        line.startswith("attic alive 18 % 6.5/8 4 GiB/16 GiB 0.5/2 1.5 2 0") for line in text
    )
    assert any("train running attic ada@desk 2 cores, 1 GiB" in line for line in text)
    assert any("wait waiting ada 2 cores" in line for line in text)
    assert not any("over" in line for line in text)
    shown = json.loads(grid("top", "--once", "--json").stdout)
    assert [node["name"] for node in shown["nodes"]] == ["desk", "attic"]
    assert [job["name"] for job in shown["running"] + shown["waiting"]] == ["train", "wait"]
    assert grid("top", "--once", "--limit", "1").returncode == 0


def test_who_did_not_answer_is_named_beside_the_jobs(agent, grid):
    views = [a_view("one", node="desk"), a_view("two", node="attic")]
    pages = [Jobs(jobs=tuple(views), missing=("cellar",)), Jobs(jobs=(), missing=("cellar",))]

    async def page(**filters):
        return pages[0]

    agent.jobs = page
    done = grid("jobs")
    assert "ran node command" in lines(done.stdout)[0]
    assert any("attic" in line for line in done.stdout.splitlines())
    assert "no answer from cellar" in done.stderr
    assert "no answer: cellar" in grid("top").stdout
    pages.pop(0)
    done = grid("jobs")
    assert "no jobs" in done.stderr
    assert "no answer from cellar" in done.stderr


def test_the_queue_of_another_node_can_be_seen(agent, grid):
    assert "nothing waits" in grid("jobs", "--queue", "--node", "attic").stderr
    assert grid("jobs", "--queue", "--node", "nobody").returncode == 3
    assert grid("jobs", "--node", "attic").returncode == 2


# --- place --live ---------------------------------------------------------------------------------


def test_place_live_answers_on_the_nodes_of_the_mesh_with_the_hash_of_what_was_seen(
    agent, grid, tmp_path
):
    agent.across.records = (a_record(1, name="small", cpus=2), a_record(2, name="large", cpus=64))
    job = tmp_path / "job.yaml"
    job.write_text("name: train\ncpus: 32\n")
    shown = json.loads(grid("place", "--live", "--job", job, "--json").stdout)

    assert [node["name"] for node in shown["ranked"]] == ["large"]
    assert [node["name"] for node in shown["refused"]] == ["small"]
    assert len(shown["snapshot"]) == 64
    text = grid("place", "--live", "--job", job).stdout
    assert text.startswith(f"snapshot {shown['snapshot'][:16]} of 2 nodes\n")
    agent.across.records = (a_record(1, name="small", cpus=2),)
    done = grid("place", "--live", "--job", job, "--json")
    assert (done.returncode, json.loads(done.stdout)["snapshot"]) != (3, shown["snapshot"])
    assert done.returncode == 3


def test_place_is_about_a_file_or_the_mesh_not_both(agent, grid, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("name: train\n")

    for words in ((), ("--live", "--nodes", job)):
        done = grid("place", *words, "--job", job)
        assert done.returncode == 2
        assert "either --nodes FILE or --live" in done.stderr


def test_offers_and_loans_of_every_node_are_in_one_table(agent, grid):
    offer = Offer(kind="cpu", amount=2_000, total=4_000, made_ms=STARTED_MS, expires_ms=STARTED_MS)
    held = Withheld(kind="gpu", threshold="gpu_utilization_max", limit="20 %", measured="90 %")
    agent.lends = msgspec.structs.replace(agent.lends, offers=(offer,), not_joined=("attic",))
    agent.across.others = (msgspec.structs.replace(agent.lends, node="attic", withheld=(held,)),)
    agent.mesh.members += [a_node("attic", offers=("cpu 2",)), a_node("barn", offers=("cpu 9",))]
    text = grid("shared-status").stdout
    shown_lines = lines(text)

    assert any(line.startswith("desk cpu 2 cores / 4 cores") for line in shown_lines)
    assert any(line.startswith("attic cpu 2 cores / 4 cores") for line in shown_lines)
    assert "attic: gpu: gpu_utilization_max is 20 %, measured 90 %" in shown_lines
    assert "barn: offers cpu 9" in shown_lines  # It did not answer; this it told everyone.
    assert "attic: not joined" not in text
    shown = json.loads(grid("shared-status", "--json").stdout)
    assert [one["node_id"] for one in shown["offers"]] == ["desk", "attic"]
