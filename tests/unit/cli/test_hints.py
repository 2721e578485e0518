"""What is said of a job that lacked something where it ran; and once, how that gets there."""

import msgspec
import pytest

from distributed_grid.cli import hints
from distributed_grid.client.blocking import Caller
from distributed_grid.wire.api import ArrayView, AttemptView
from tests.agent_stand_in import CannedAgent, a_view, serving

ON_ATTIC = (AttemptView(number=1, node="attic", state="ended"),)
AT_HOME = (AttemptView(number=1, node="desk", state="ended"),)
TRACEBACK = b"Traceback:\n  File t.py\nModuleNotFoundError: No module named 'torch.nn'\n"
UNFOUND = "{}: command not found"


@pytest.fixture
def canned():
    return CannedAgent()


@pytest.fixture
def agent(tmp_path, canned):
    with serving(canned, tmp_path / "agent.sock"), Caller(str(tmp_path / "agent.sock")) as caller:
        yield caller


@pytest.fixture
def work(tmp_path):
    """The directory of a project."""
    made = tmp_path / "work"
    (made / ".git").mkdir(parents=True)
    return made


def failed(work, *argv, exit_code=1, reason="", attempts=ON_ATTIC, **fields):
    return a_view(argv=argv, cwd=str(work), state="failed", exit_code=exit_code, reason=reason,
                  attempts=attempts, **fields)  # fmt: skip


def unfound(work, *argv, **fields):
    return failed(work, *argv, exit_code=127, reason=UNFOUND.format(argv[0]), **fields)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("tool", "it ran on attic, where tool was not found; install it there, or --avoid attic"),
        ("/opt/tool", "it ran on attic, where /opt/tool was not found; install it there, or"),
        ("./here.sh", ("it ran on attic, where there is no ./here.sh; grid run --dry-run shows what"
                      " travels, --ship ./here.sh sends it")),
        ("./gone.sh", "it ran on attic, and there is no ./gone.sh here either"),
        (".venv/bin/python", ("it ran on attic, where there is no .venv/bin/python;"
                             " --python-env auto builds an environment from uv.lock")),
    ],
)  # fmt: skip
def test_a_program_that_is_not_there_is_told_with_the_machine_and_the_remedy(
    agent, work, program, said
):
    (work / "here.sh").touch()
    (work / "uv.lock").touch()
    (work / "requirements.txt").touch()

    assert hints.missing(agent, unfound(work, program, "x")).startswith(said)
    assert hints.missing(agent, unfound(work, program, "x", attempts=AT_HOME)) == ""


def test_a_line_for_a_shell_says_so_wherever_it_ran(agent, work):
    said = "'echo a && echo b' was taken for the name of a program: --shell runs it as a shell does"

    for attempts in (ON_ATTIC, AT_HOME):
        job = unfound(work, "echo a && echo b", attempts=attempts)
        assert hints.missing(agent, job) == said
    assert "--shell" not in hints.missing(agent, unfound(work, "echo a", "b"))


def test_a_shell_that_did_not_find_a_command_is_not_missing_itself(agent, work):
    job = failed(work, "/bin/sh", "-c", "tool", exit_code=127, reason="exit code 127")

    assert hints.missing(agent, job) == (
        "it ran on attic, where a command of it was not found; install it there, or --avoid attic"
    )


def test_what_an_image_lacks_is_not_the_machines(agent, work):
    why = f"{UNFOUND.format('tool')}, in the image box"

    assert "attic, where tool" not in hints.missing(
        agent, failed(work, "tool", exit_code=125, reason=why)
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (TRACEBACK, ("it ran on attic, where Python has no module torch.nn; with torch.nn in"
                    " requirements.txt, --python-env auto builds an environment for it")),
        (b"/usr/bin/python3: No module named pytest\n", ("it ran on attic, where Python has no"
         " module pytest; with pytest in requirements.txt, --python-env auto builds")),
        (b"ModuleNotFoundError: No module named 'mine.part'\n",
         "it ran on attic, where there is no mine.part; grid run --dry-run shows what travels"),
        (b"ModuleNotFoundError: No module named 'alone'\n", "it ran on attic, where there is no"),
        (b"ValueError: No module named 'torch' was a joke\n", ""),
        (TRACEBACK + b"it was caught\n", ""),
        (b"", ""),
    ],
)  # fmt: skip
def test_a_module_that_is_not_there_is_told_with_the_machine_and_the_remedy(
    agent, canned, work, written, said
):
    (work / "mine").mkdir()
    (work / "alone.py").touch()
    job = failed(work, "python", "t.py")
    canned.views[job.id] = job
    canned.write(job.name, written, stream="stderr")

    told = hints.missing(agent, job)
    assert told.startswith(said)
    assert bool(told) == bool(said)


def test_of_an_array_the_first_that_failed_is_looked_at(agent, canned, work):
    array = ArrayView(total=3, failed=1, failed_indices=((2, 1),), reasons=("exit 1",))
    job = failed(work, "python", "t.py", array=array)
    canned.views[job.id] = job
    canned.write(job.name, TRACEBACK, stream="stderr", index=2)
    assert "no module torch.nn" in hints.missing(agent, job)

    array = ArrayView(total=3, failed=1, reasons=(f"exit 127: {UNFOUND.format('tool')}",))
    assert "attic, where tool was" in hints.missing(agent, failed(work, "tool", array=array))


def test_nothing_is_said_of_what_is_not_known(agent, work):
    assert hints.missing(agent, a_view()) == ""
    assert hints.missing(agent, failed(work, "python", attempts=())) == ""
    assert hints.missing(agent, failed(work, "make")) == ""
    assert hints.missing(agent, failed(work, "python", "t.py", name="unknown")) == ""  # No log.


def test_how_an_environment_is_built_elsewhere_is_said_once_for_a_project(
    agent, work, tmp_path, capfd
):
    data = tmp_path / "data"
    data.mkdir()
    there = a_view(argv=("python3", "t.py"), cwd=str(work), attempts=ON_ATTIC)
    said = (
        "grid: it ran on attic with the Python there; --python-env auto builds an environment from"
        " requirements.txt\n"
    )

    def told(job) -> str:
        hints.environment(agent, job, str(data))
        return capfd.readouterr().err

    assert told(there) == ""  # There is nothing to build from.
    (work / "requirements.txt").touch()
    (work / "below").mkdir()
    assert told(msgspec.structs.replace(there, attempts=AT_HOME)) == ""
    assert told(there) == said
    assert told(there) == ""
    assert told(msgspec.structs.replace(there, cwd=f"{work}/below")) == ""  # The same project.
    (work / "below" / "uv.lock").touch()
    assert "from uv.lock" in told(msgspec.structs.replace(there, cwd=f"{work}/below"))
    (data / "said").write_text("x\n" * hints.SAID_BYTES_MAX)
    assert told(there) == said  # What grew too long was forgotten.
    data.joinpath("said").unlink()
    data.rmdir()
    assert told(there) == ""  # What cannot be remembered is not said again and again.


@pytest.mark.parametrize(
    ("written", "file"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/in.csv'\n", "data/in.csv"),
        ("cat: .env: No such file or directory\n", ".env"),
        ("sh: 1: cannot open 'a b.txt': No such file\n", "'a b.txt'"),
        ("Error: ENOENT: no such file or directory, open 'data/in.csv'\n", "data/in.csv"),
        ("open {work}/data/in.csv: no such file or directory\n", "data/in.csv"),
        ("cat: .env: No such file or directory\nmake: *** [all] Error 1\n", ".env"),
        ("cat: gone.csv: No such file or directory\n", ""),
        ("cat: /etc/passwd: No such file or directory\n", ""),
        ("cat: .: No such file or directory\n", ""),
        ("cat: .env: Permission denied\n", ""),
        ("\udcff: No such file or directory\0\n", ""),
    ],
)
def test_a_file_that_is_here_and_not_there_is_named_with_what_sends_it(
    agent, canned, work, written, file
):
    (work / "data").mkdir()
    for name in ("data/in.csv", ".env", "a b.txt"):
        (work / name).touch()
    job = failed(work, "./tool")
    canned.views[job.id] = job
    text = written.format(work=work).encode(errors="surrogateescape")
    canned.write(job.name, text, stream="stderr")

    sends = f"grid run --dry-run shows what travels, --ship {file} sends it"
    told = f"it ran on attic, where there is no {file}; {sends}" if file else ""
    assert hints.missing(agent, job) == told
    assert hints.missing(agent, failed(work, "./tool", attempts=AT_HOME)) == ""


def test_a_link_that_leads_outside_is_named_and_not_to_be_sent(agent, canned, work, tmp_path):
    (tmp_path / "big.csv").touch()
    (work / "data.csv").symlink_to(tmp_path / "big.csv")
    job = failed(work, "cat", "data.csv")
    canned.views[job.id] = job
    canned.write(job.name, b"cat: data.csv: No such file or directory\n", stream="stderr")

    assert hints.missing(agent, job) == (
        "it ran on attic, where there is no data.csv: links that lead outside stay here; copy it in"
    )
