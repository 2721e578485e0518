import contextlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from distributed_grid.edges import home as homes
from distributed_grid.edges.home import HomeUnusable
from distributed_grid.errors import AgentRuns, BadValue
from distributed_grid.model.home import SOCKET_PATH_BYTES_MAX, Home, SocketPathTooLong, locate

ROOT = Path(__file__).resolve().parent.parent.parent
LONG = "/" + "x" * 90


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ("/u/.local/share/grid", "/u/.config/grid")),
        ({"XDG_DATA_HOME": "/d/", "XDG_CONFIG_HOME": "/c"}, ("/d/grid", "/c/grid")),
        ({"XDG_DATA_HOME": "relative"}, ("/u/.local/share/grid", "/u/.config/grid")),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, ("/u/.local/share/grid", "/u/.config/grid")),
        ({"GRID_HOME": "/g/", "XDG_DATA_HOME": "/d"}, ("/g", "/g")),
    ],
)
def test_data_and_configuration_are_in_their_places(environ, expected):
    home = locate(environ, user_home="/u")

    assert (home.data, home.config) == expected
    assert home.socket == f"{home.data}/agent.sock"


def test_a_named_data_directory_counts_before_all():
    home = locate({"GRID_HOME": "/g"}, user_home="/u", data_dir="/mine/")

    assert (home.data, home.config) == ("/mine", "/g")
    assert home.database == "/mine/grid.db"
    assert (home.lock, home.agent_pid) == ("/mine/agent.lock", "/mine/agent.pid")
    assert (home.keeper_pid, home.jobs) == ("/mine/keeper.pid", "/mine/jobs")
    assert home.agent_log == "/mine/agent.log"


@pytest.mark.parametrize(("environ", "data_dir"), [({"GRID_HOME": "x"}, None), ({}, "x")])
def test_a_relative_home_is_refused_and_not_guessed(environ, data_dir):
    with pytest.raises(BadValue, match="absolute path"):
        locate(environ, user_home="/u", data_dir=data_dir)


def test_a_path_too_long_for_a_socket_moves_to_the_runtime_directory():
    environ = {"XDG_DATA_HOME": LONG, "XDG_RUNTIME_DIR": "/run/user/7"}

    assert locate(environ, user_home="/u").socket == "/run/user/7/grid/agent.sock"
    for lost in (
        {"XDG_DATA_HOME": LONG},
        {"XDG_DATA_HOME": LONG, "XDG_RUNTIME_DIR": LONG},
        {"GRID_HOME": LONG + "yyyy", "XDG_RUNTIME_DIR": "/run/user/7"},
    ):
        with pytest.raises(SocketPathTooLong) as error:
            locate(lost, user_home="/u")
        assert "shorter" in error.value.remedy
    with pytest.raises(SocketPathTooLong):
        locate(environ, user_home="/u", data_dir=LONG + "yyyy")


def test_the_longest_path_can_really_be_bound(tmp_path):
    folder = tmp_path / "x"
    room = SOCKET_PATH_BYTES_MAX - len(f"{folder}/agent.sock")
    folder = tmp_path / ("x" * (room + 1))
    folder.mkdir()
    path = locate({"GRID_HOME": str(folder)}, user_home="/u").socket
    assert len(path) == SOCKET_PATH_BYTES_MAX

    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)


@pytest.fixture
def home(tmp_path) -> Home:
    return locate({"GRID_HOME": str(tmp_path / "grid")}, user_home="/u")


def test_directories_are_made_for_their_owner_alone(home):
    homes.prepare(home)
    Path(home.data).chmod(0o755)
    homes.prepare(home)

    assert stat.S_IMODE(Path(home.data).stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(home.jobs).stat().st_mode) == 0o700
    assert [path.name for path in Path(home.data).iterdir()] == ["jobs"]


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable) as error:
        homes.prepare(locate({"GRID_HOME": f"{tmp_path}/file/grid"}, user_home="/u"))

    assert "in the way" in error.value.remedy
    assert error.value.path == f"{tmp_path}/file/grid"


def test_a_directory_of_somebody_else_is_refused(home, monkeypatch):
    homes.prepare(home)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)

    with pytest.raises(HomeUnusable, match="belongs to another user"):
        homes.prepare(home)


@pytest.mark.slow
def test_a_read_only_home_is_told_with_a_remedy(tmp_path):
    """On a file system mounted read-only: root may write where rights forbid it."""
    code = (
        "import sys\n"
        "from distributed_grid.edges import home\n"
        "from distributed_grid.errors import GridError\n"
        "from distributed_grid.model.home import locate\n"
        "places = locate({'GRID_HOME': sys.argv[1]}, user_home='/u')\n"
        "for do in (lambda: home.prepare(places), lambda: home.write_pid(places.agent_pid),\n"
        "           lambda: home.locked(places).__enter__()):\n"
        "    try:\n"
        "        do()\n"
        "    except GridError as error:\n"
        "        print(error)\n"
    )
    script = 'mount -t tmpfs -o ro grid "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh",
         tmp_path, sys.executable, code],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    for line in done.stdout.splitlines():
        assert "Read-only file system. Its file system is read-only: set GRID_HOME" in line


def test_a_second_agent_is_told_the_pid_of_the_first(home):
    homes.prepare(home)
    with homes.locked(home):
        code = (
            "import sys\n"
            "from distributed_grid.edges import home\n"
            "from distributed_grid.errors import AgentRuns\n"
            "from distributed_grid.model.home import locate\n"
            "places = locate({'GRID_HOME': sys.argv[1]}, user_home='/u')\n"
            "try:\n"
            "    home.locked(places).__enter__()\n"
            "except AgentRuns as error:\n"
            "    print(error.pid, error.data_dir)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, home.data], cwd=ROOT, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert done.stdout == f"{os.getpid()} {home.data}\n"
        with pytest.raises(AgentRuns), homes.locked(home):
            pass
    with homes.locked(home):
        pass


def test_the_lock_ends_with_the_process_that_held_it(home):
    homes.prepare(home)
    code = (
        "import os, sys\n"
        "from distributed_grid.edges import home\n"
        "from distributed_grid.model.home import locate\n"
        "held = home.locked(locate({'GRID_HOME': sys.argv[1]}, user_home='/u'))\n"
        "held.__enter__()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, home.data], cwd=ROOT, check=False)
    assert done.returncode == -9

    with homes.locked(home):
        assert homes.read_pid(home.lock) == os.getpid()


def test_a_lock_in_a_place_that_is_not_there_is_told(home):
    with pytest.raises(HomeUnusable), homes.locked(home):
        pass


def test_a_pid_file_lives_as_long_as_it_is_needed(home):
    homes.prepare(home)
    with homes.pid_file(home.agent_pid):
        assert homes.read_pid(home.agent_pid) == os.getpid()
        with homes.pid_file(home.keeper_pid, 123):
            assert Path(home.keeper_pid).read_text("ascii") == "123\n"
    assert homes.read_pid(home.agent_pid) is None
    assert [path.name for path in Path(home.data).iterdir()] == ["jobs"]


def test_a_pid_file_of_a_successor_stays(home):
    homes.prepare(home)
    with contextlib.ExitStack() as stack:
        stack.enter_context(homes.pid_file(home.agent_pid))
        homes.write_pid(home.agent_pid, 99)

    assert homes.read_pid(home.agent_pid) == 99


@pytest.mark.parametrize("content", ["", "no number", "-1", "9" * 40])
def test_junk_in_a_pid_file_is_no_pid(tmp_path, content):
    (tmp_path / "agent.pid").write_text(content, encoding="ascii")

    assert homes.read_pid(str(tmp_path / "agent.pid")) is None


def test_a_name_is_remembered_until_another_is_given(tmp_path):
    home = locate({"GRID_HOME": str(tmp_path)}, user_home="/u")
    assert homes.remembered_name(home) == ""
    for name in ("laptop", "laptop", "desk"):
        homes.remember_name(home, name)

        assert homes.remembered_name(home) == name


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe", b"two\nlines\n", b"x" * 100_000])
def test_what_no_node_can_be_called_is_no_remembered_name(tmp_path, junk):
    home = locate({"GRID_HOME": str(tmp_path)}, user_home="/u")
    Path(home.name).write_bytes(junk)

    assert homes.remembered_name(home) == ""


def test_a_name_that_cannot_be_kept_says_why(tmp_path):
    home = locate({"GRID_HOME": str(tmp_path)}, user_home="/u")
    Path(f"{home.name}.new").mkdir()

    with pytest.raises(HomeUnusable, match="name: cannot be used"):
        homes.remember_name(home, "laptop")
