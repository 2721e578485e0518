"""`ticket`, `join`, `nodes`, `leave`, `kick`, `rename`, `events`, against canned agents."""

import contextlib
import io
import json
import os
import pty
import subprocess
import termios
from pathlib import Path

import msgspec
import pytest
import segno

from distributed_grid.cli.join import in_a_line, tell
from distributed_grid.wire.api import Event
from distributed_grid.wire.mesh_api import Joined
from tests.agent_stand_in import STARTED_MS, CannedAgent, serving
from tests.conftest import VENV_BIN
from tests.mesh_stand_in import CannedMesh, Lobby, a_node, hashed

pytestmark = pytest.mark.rows("S2-149")


@pytest.fixture
def lobby() -> Lobby:
    return Lobby()


@pytest.fixture
def desk(tmp_path, clean_env, lobby):
    """The canned agent that `grid` finds by itself."""
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    agent = CannedAgent()
    agent.mesh = CannedMesh("desk", lobby)
    with serving(agent, home / "agent.sock"):
        yield agent


@pytest.fixture
def attic(tmp_path, lobby):
    """Another one, for `--data-dir attic`."""
    home = tmp_path / "attic"
    home.mkdir()
    agent = CannedAgent()
    agent.mesh = CannedMesh("attic", lobby)
    with serving(agent, home / "agent.sock"):
        yield agent


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def on_a_terminal(
    *words: str, env: dict[str, str], says: bytes = b"", columns: int = 0
) -> tuple[int, str, str]:
    """Exit code, stdout through a pipe, and what a person sees: stderr, with stdin typed there."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with subprocess.Popen(
        [VENV_BIN / "grid", *words], env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
    ) as process:
        os.close(theirs)
        if says:
            os.write(ours, says)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: nobody writes there any more.
            while part := os.read(ours, 65_536):
                seen += part
        out = process.stdout.read()
    os.close(ours)
    return process.returncode, out.decode(), seen.decode()


# --- ticket ---------------------------------------------------------------------------------------


def test_a_ticket_is_one_line_on_stdout_and_nothing_of_it_on_stderr(desk, grid):
    done = grid("ticket", "--role", "worker", "--ttl", "2h", "--uses", "3")

    assert done.returncode == 0, done.stderr
    assert done.stdout in {f"{text}\n" for text in desk.mesh.lobby.issuers}
    assert done.stdout.strip() not in done.stderr
    assert "keep a copy of /data/recovery.key elsewhere" in done.stderr
    [wanted] = desk.mesh.asked
    assert (wanted.role, wanted.ttl_ms, wanted.uses) == ("worker", 7_200_000, 3)


def test_the_second_ticket_founds_nothing(desk, grid):
    grid("ticket")
    done = grid("ticket")

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_on_a_terminal_the_ticket_is_a_picture_too_with_what_to_do_next(desk, clean_env):
    code, out, seen = on_a_terminal("ticket", env=clean_env)

    assert (code, len(out.splitlines())) == (0, 1)
    assert out.strip() not in seen
    assert picture(out.strip().upper()) in seen.replace("\r", "")
    assert "on the other machine: grid join" in seen
    [made] = desk.mesh.made
    assert f"grid ticket revoke {made}" in seen


def picture(text: str) -> str:
    drawn = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(drawn, border=2, compact=True)
    return drawn.getvalue()


def test_a_picture_that_is_wider_than_the_terminal_is_left_out(desk, clean_env):
    code, _, seen = on_a_terminal("ticket", env=clean_env, columns=30)

    assert code == 0
    assert "▀" not in seen
    assert "on the other machine: grid join" in seen


@pytest.mark.parametrize("change", [{"TERM": "dumb"}, {"LC_ALL": "C", "PYTHONUTF8": "0",
                                                      "PYTHONCOERCECLOCALE": "0"}])  # fmt: skip
def test_a_terminal_that_cannot_show_the_picture_shows_the_words(desk, clean_env, change):
    code, _, seen = on_a_terminal("ticket", env={**clean_env, **change})

    assert code == 0
    assert "▀" not in seen
    assert "on the other machine: grid join" in seen


def test_a_ticket_as_json_has_all_of_it(desk, grid):
    made = json.loads(grid("ticket", "--json").stdout)

    assert made["text"] in desk.mesh.lobby.issuers
    assert made["recovery_file"] == "/data/recovery.key"


@pytest.mark.parametrize(
    "words", [("--ttl", "soon"), ("--ttl", "0"), ("--ttl", "2000d"), ("--uses", "0"),
              ("--uses", "1001"), ("--role", "king")]
)  # fmt: skip
def test_a_ticket_nobody_can_mean_is_bad_input(desk, grid, words):
    done = grid("ticket", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert desk.mesh.asked == []


def test_only_an_admin_issues_tickets(desk, grid):
    desk.mesh.mesh = hashed("mesh")
    done = grid("ticket")

    assert (done.returncode, done.stdout) == (5, "")
    assert "not permitted: only an admin" in done.stderr


def test_tickets_are_listed_without_their_secrets_and_revoked(desk, attic, grid):
    assert "no tickets" in grid("ticket", "list").stderr
    text = grid("ticket", "--uses", "2").stdout.strip()
    grid("join", text, "--data-dir", "attic")
    [ticket_id] = desk.mesh.made

    shown = grid("ticket", "list")
    assert shown.returncode == 0
    row = f"{ticket_id} member open 1/2 2023-11-14 22:13:20 2023-11-15 22:13:20 attic"
    assert row in lines(shown.stdout)
    assert text not in grid("ticket", "list", "--json").stdout
    assert json.loads(grid("ticket", "list", "--json").stdout)[0]["used_by"] == ["attic"]

    done = grid("ticket", "revoke", ticket_id)
    assert done.stdout == f"ticket {ticket_id} is revoked, 1 joined with it\n"
    assert "revoked" in grid("ticket", "list").stdout
    assert json.loads(grid("ticket", "revoke", ticket_id, "--json").stdout)["state"] == "revoked"


def test_a_ticket_that_is_not_there_is_not_found(desk, grid):
    done = grid("ticket", "revoke", "ffff")

    assert done.returncode == 3
    assert "grid ticket list" in done.stderr


# --- join -----------------------------------------------------------------------------------------


@pytest.mark.rows("S2-148")
@pytest.mark.parametrize("way", ["argument", "stdin", "file", "environment"])
def test_a_ticket_comes_as_an_argument_by_stdin_in_a_file_or_in_the_environment(
    desk, attic, grid, tmp_path, way
):
    text = grid("ticket").stdout
    (tmp_path / "t").write_text(text)
    words = {"argument": [text.strip()], "stdin": ["-"], "file": ["@t"], "environment": []}[way]
    env = {"GRID_TICKET": text if way == "environment" else None}
    stdin = f"  {text[:20]}\n{text[20:]}" if way == "stdin" else None  # As mail breaks it.
    done = grid("join", *words, "--data-dir", "attic", env=env, stdin=stdin)

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"attic joined mesh {desk.mesh.mesh[:12]} as member: 2 nodes\n"
    assert [node.name for node in desk.mesh.members] == ["desk", "attic"]


def test_who_does_not_know_all_of_them_yet_says_that_there_are_more():
    joined = Joined(mesh="ab" * 32, name="attic", roles=("member",), was_member=False, nodes=3)

    assert in_a_line(joined).endswith(": 3 nodes")
    some = msgspec.structs.replace(joined, is_all=False)
    assert in_a_line(some).endswith(": 3 nodes, and more")


@pytest.mark.parametrize(
    ("roles", "was_member", "is_told"),
    [
        (("member",), False, True),
        (("worker",), False, True),
        (("admin", "member"), False, True),
        (("guest",), False, False),
        (("member",), True, False),
    ],
)
def test_whoever_lets_members_run_jobs_here_is_told_so(capsys, roles, was_member, is_told):
    tell(Joined(mesh="ab" * 32, name="attic", roles=roles, was_member=was_member, nodes=2))
    said = capsys.readouterr()

    assert said.out.endswith(": 2 nodes\n")
    alone = "may run jobs here now, as you, on what you lend (grid offer); it is the first machine"
    assert (alone in said.err) is is_told


def test_joining_twice_is_harmless_and_says_so(desk, attic, grid):
    text = grid("ticket").stdout.strip()
    first = json.loads(grid("join", text, "--data-dir", "attic", "--json").stdout)
    again = grid("join", text, "--data-dir", "attic")

    assert first["was_member"] is False
    assert again.stdout == f"attic was in mesh {desk.mesh.mesh[:12]} as member: 2 nodes\n"
    assert len(desk.mesh.members) == 2


def test_without_a_ticket_anywhere_it_asks_for_one(desk, grid):
    done = grid("join")

    assert done.returncode == 2
    assert "- for stdin, @FILE, or set GRID_TICKET" in done.stderr


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (lambda mesh: setattr(mesh.lobby, "wall_ms", STARTED_MS + 86_400_000), 5, "has expired"),
        (lambda mesh: mesh.made.update(revoked(mesh)), 5, "was revoked"),
        (lambda mesh: mesh.made.update(used_up(mesh)), 5, "is used up"),
        (lambda mesh: mesh.lobby.issuers.clear(), 5, "did not issue this ticket"),
        (lambda mesh: setattr(mesh, "is_reachable", False), 1, "cannot be reached at 10.0.0.7"),
    ],
    ids=["expired", "revoked", "used-up", "unknown", "unreachable"],
)
@pytest.mark.usefixtures("attic")
def test_a_refusal_has_its_reason_and_is_no_silence(desk, grid, spoil, code, says):
    text = grid("ticket").stdout.strip()
    spoil(desk.mesh)
    done = grid("join", text, "--data-dir", "attic")

    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert text not in done.stderr
    assert text[5:25] not in done.stderr


def revoked(mesh: CannedMesh):
    return {key: msgspec.structs.replace(one, state="revoked") for key, one in mesh.made.items()}


def used_up(mesh: CannedMesh):
    return {key: msgspec.structs.replace(one, used_by=("x",)) for key, one in mesh.made.items()}


@pytest.mark.parametrize(
    ("words", "stdin"),
    [(("@nowhere",), None), (("@.",), None), (("-",), ""), (("@long",), None), (("",), None)],
    ids=["no file", "a directory", "nothing on stdin", "too long", "empty"],
)
def test_where_there_is_no_ticket_is_bad_input(desk, grid, tmp_path, words, stdin):
    (tmp_path / "long").write_text("x" * 70_000)
    done = grid("join", *words, stdin=stdin)

    assert (done.returncode, done.stdout) == (2, "")
    assert "grid ticket" in done.stderr


def test_without_an_agent_joining_says_how_to_start_one(grid):
    done = grid("join", "grid1abc")

    assert done.returncode == 4
    assert "grid1abc" not in done.stderr
    assert "grid up --detach" in done.stderr


# --- nodes ----------------------------------------------------------------------------------------


def test_nodes_shows_who_is_there_how_they_are_and_how_far_away(desk, grid):
    desk.mesh.mesh = hashed("mesh")
    desk.mesh.members += [
        a_node("gpu1", node_class="gpu-server", gpus_total=2, gpus_free_milli=1_500,
               gpu_models=("RTX4090", "RTX4090"), jobs_waiting=2, path="relayed", address="",
               latency_us=None, estimated_us=24_000, verification="pretended"),
        a_node("nap", health="suspect", why="no answer to 3 probes", latency_us=None, path="none",
               address="", verification="claimed", note="certificate expired"),
        a_node("gone", health="dead", why="silent for 3s"),
    ]  # fmt: skip
    done = grid("nodes")
    head, desk_row, gpu_row, nap_row, gone_row = (
        row for row in lines(done.stdout) if not row.startswith(("──", "──"))
    )

    assert done.returncode == 0
    assert head == ("name roles class health cores memory GPUs load jobs path latency version"
                    " checked note")  # fmt: skip
    assert desk_row == ("desk * member workstation alive 6.5/8 4 GiB/16 GiB 1.5 1 self 0.2.0"
                        " verified")  # fmt: skip
    assert (
        "gpu1 member gpu-server alive 6.5/8 4 GiB/16 GiB 1.5/2 RTX4090 1.5 1+2 relayed" in gpu_row
    )
    assert "~24.0 ms 0.2.0 pretended" in gpu_row
    assert "suspect since 2023-11-14 22:13:20: no answer to 3 probes" in nap_row
    assert nap_row.endswith("claimed certificate expired")
    assert "dead since 2023-11-14 22:13:20: silent for 3s" in gone_row
    assert "direct 10.0.0.7:4711 1.2 ms" in gone_row


def test_a_node_alone_is_told_how_to_get_company(desk, grid):
    done = grid("nodes")

    assert done.returncode == 0
    assert "GPUs" not in done.stdout
    assert "let others in with: grid ticket" in done.stderr
    assert json.loads(grid("nodes", "--json").stdout)["nodes"][0]["name"] == "desk"


def test_no_name_of_another_machine_can_write_on_the_terminal(desk, grid):
    desk.mesh.members.append(a_node("\x1b[31mred", note="two\nlines", why="\x07", health="dead"))
    done = grid("nodes")

    assert "\x1b" not in done.stdout
    assert "\\x1b[31mred" in done.stdout
    assert "two\\nlines" in done.stdout


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_watching_into_a_pipe_shows_what_changed(desk, clean_env, how):
    with subprocess.Popen(
        [VENV_BIN / "grid", "nodes", "--watch", *how], env=clean_env, stdout=subprocess.PIPE
    ) as process:
        until(process, b"desk")
        desk.mesh.members.append(a_node("attic"))
        until(process, b"attic")
        process.terminate()


def until(process: subprocess.Popen[bytes], word: bytes) -> None:
    while word not in (line := process.stdout.readline()):
        assert line, "it ended"


def test_watching_on_a_terminal_draws_the_table_again(desk, clean_env):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [VENV_BIN / "grid", "nodes", "--watch"], env=clean_env, stdout=theirs, stdin=theirs
    ) as process:
        os.close(theirs)
        seen = b""
        while b"desk" not in seen:
            seen += os.read(ours, 65_536)
        process.terminate()
        with contextlib.suppress(OSError):
            while os.read(ours, 65_536):
                pass
    os.close(ours)


# --- leave, kick, rename --------------------------------------------------------------------------


def test_leaving_takes_this_node_out(desk, attic, grid):
    grid("join", grid("ticket").stdout.strip(), "--data-dir", "attic")
    done = grid("leave", "--data-dir", "attic")

    assert done.stdout == f"attic has left mesh {desk.mesh.mesh[:12]}\n"
    assert attic.mesh.mesh == ""


def test_who_is_alone_cannot_leave_or_kick(desk, grid):
    for words in (("leave",), ("kick", "attic")):
        done = grid(*words)
        assert done.returncode == 3
        assert "this node is in no mesh" in done.stderr


def test_the_last_admin_leaves_only_by_force(desk, grid):
    grid("ticket")
    assert grid("leave").returncode == 5
    assert grid("leave", "--force").returncode == 0


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_on_a_terminal_leaving_is_asked_for(attic, grid, clean_env, answer, code):
    grid("join", grid("ticket").stdout.strip(), "--data-dir", "attic")
    env = {**clean_env, "GRID_HOME": str(Path(clean_env["GRID_HOME"]).with_name("attic"))}
    left, _, seen = on_a_terminal("leave", env=env, says=answer)

    assert left == code, seen
    assert "attic leaves 1 other node. Leave?" in seen
    assert bool(attic.mesh.mesh) == bool(code)


def test_a_node_is_kicked_by_name_or_by_the_start_of_its_id(desk, grid):
    desk.mesh.mesh = hashed("mesh")
    desk.mesh.members += [a_node("attic"), a_node("cellar")]

    done = grid("kick", "attic")
    assert done.returncode == 0
    assert done.stdout.startswith(f"attic ({hashed('attic')[:12]}) is revoked")
    assert json.loads(grid("kick", hashed("cellar")[:8], "--json").stdout)["name"] == "cellar"
    assert grid("kick", "attic").returncode == 3
    assert grid("kick", "").returncode == 2


def test_a_node_is_renamed_and_a_name_that_cannot_be_printed_refused(desk, grid):
    assert "is called bench" in grid("rename", "bench").stdout
    assert json.loads(grid("rename", "desk", "--json").stdout)["name"] == "desk"
    for bad in ("", "two\nlines", "x" * 65, "id:x", " blank "):
        assert grid("rename", "--", bad).returncode == 2
    assert desk.mesh.me.name == "desk"


# --- events ---------------------------------------------------------------------------------------


def test_events_are_one_line_each(desk, grid):
    names = ("node.joined", "node.left", "node.dead", "node.suspect", "node.alive", "node.updated",
             "node.path_changed")  # fmt: skip
    desk.happened = [
        Event(number=number, at_ms=STARTED_MS, name=name,
              fields={"node": hashed("attic"), "name": "attic", "why": "it sleeps", "nothing": None, "ms": 3, "mesh": hashed("m")})
        for number, name in enumerate(names, start=1)
    ]  # fmt: skip
    desk.happened.append(
        Event(number=8, at_ms=STARTED_MS, name="job.ended", job=hashed("j"), fields={"x": "\x1b["})
    )
    done = grid("events")
    shown = lines(done.stdout)

    assert done.returncode == 0
    at = f"2023-11-14 22:13:20 node.joined attic {hashed('attic')[:12]}"
    assert shown[0] == f'{at} why="it sleeps" ms=3 mesh={hashed("m")[:12]}'
    assert [line.split()[2] for line in shown[:7]] == list(names)
    assert shown[7].split()[3] == hashed("j")[:12]
    assert "\x1b" not in done.stdout
    assert desk.asked == [("events", (0, 0), False)]


def test_events_as_json_are_one_object_a_line_and_followed_if_told(desk, grid):
    done = grid("events", "-f", "--json")

    assert [json.loads(line)["number"] for line in done.stdout.splitlines()] == [1, 2, 3]
    assert desk.asked == [("events", (0, 0), True)]
    assert done.returncode == 4
    assert done.stderr.startswith("grid: no more events: the agent was stopped")


# --- completion -----------------------------------------------------------------------------------


def test_a_shell_completes_nodes_and_tickets(desk, grid):
    grid("ticket")
    [ticket_id] = desk.mesh.made
    desk.mesh.members.append(a_node("attic"))

    def completed(words: str, at: int) -> list[str]:
        env = {"_GRID_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        return [line.partition(",")[2] for line in grid(env=env).stdout.splitlines()]

    assert "attic" in completed("grid kick a", 2)
    assert completed(f"grid ticket revoke {ticket_id[:3]}", 3) == [ticket_id]
    assert "ticket" in completed("grid ti", 1)


def test_a_shell_completes_nothing_without_an_agent(grid):
    env = {"_GRID_COMPLETE": "bash_complete"}
    for words, at in (("grid kick a", "2"), ("grid ticket revoke f", "3")):
        done = grid(env={**env, "COMP_WORDS": words, "COMP_CWORD": at})
        assert (done.returncode, done.stdout.strip()) == (0, "")
