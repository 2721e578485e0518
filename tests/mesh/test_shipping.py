"""A job's files go where it runs, once, and what it leaves behind comes home: three real agents."""

import hashlib
import json
import os
import re
import socket

import pytest

from tests.mesh_lab import Member, MeshLab, awaited
from tests.unit.artifacts.lab import noise, plant

pytestmark = pytest.mark.slow

PLAIN = "pretend: {cpus: 2, memory: 8GiB}\n"
MB = 1_000_000


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        desk = made.member("desk", config=PLAIN).up()
        for name in ("attic", "barn"):
            made.member(name, config=PLAIN).up("--join", desk.ticket())
        made.settled(made.members)
        yield made


@pytest.fixture
def desk(lab):
    return lab["desk"]


@pytest.fixture
def work(desk, request):
    """A directory of the person at the desk."""
    return plant(desk.dir / re.sub(r"\W", "-", request.node.name), {})


def run(member: Member, work, *words: str):
    return member("run", "--cwd", str(work), *words)


def job(member: Member, word: str) -> dict:
    return json.loads(member.says("job", word, "--json"))


def received(member: Member) -> int:
    """Of files, since its agent started."""
    return member.figure("grid_files_received_bytes_total")


def cache(member: Member) -> dict:
    return json.loads(member.says("cache", "--json"))


def story(member: Member, word: str) -> str:
    return "\n".join(f"{line['what']}: {line['detail']}" for line in job(member, word)["story"])


def test_the_directory_travels_as_it_is(desk, work):
    plant(
        work,
        {
            "a.txt": "one\n",
            "empty": "",
            "deep/er/ü ñ 日本.txt": "two\n",
            "run.sh": "#!/bin/sh\necho ran\n",
            "results": None,
            "link": ("deep/er",),
        },
    )
    (work / "run.sh").chmod(0o750)
    (work / os.fsdecode(b"no\xfftext")).write_bytes(b"three\n")
    script = ("./run.sh; cat a.txt 'link/ü ñ 日本.txt' no*text; test -d results -a ! -s empty &&"
              " ls | wc -l; stat -c %a run.sh; pwd")  # fmt: skip
    done = run(desk, work, "--node", "attic", "--", "sh", "-c", script)

    assert done.returncode == 0, done.stderr
    *said, where = done.stdout.splitlines()
    assert said == ["ran", "one", "two", "three", "7", "750"]
    assert where.startswith(f"{desk.root.parent}")
    assert str(work) not in where


def test_a_job_at_home_uses_the_directory_itself(desk, work):
    done = run(desk, work, "--node", "desk", "--", "sh", "-c", "echo x > made; pwd")

    assert done.stdout == f"{work}\n"
    assert (work / "made").read_text() == "x\n"


def test_a_second_job_sends_nothing(lab, desk, work):
    plant(work, {"data.bin": noise(3 * MB, seed=1), "src/a.py": "pass\n"})
    barn, came = lab["barn"], []
    for text in ("pass\n", "print()\n"):
        plant(work, {"src/a.py": text})
        before, hits = received(barn), cache(barn)["hits"]
        assert run(desk, work, "--node", "barn", "--", "test", "-f", "data.bin").returncode == 0
        came.append(received(barn) - before)

    assert came[0] >= 3 * MB
    assert came[1] < MB // 100
    assert cache(barn)["hits"] > hits
    assert "hits" in barn.says("cache")


def test_what_nobody_needs_is_cleared(lab, desk, work):
    plant(work, {"data.bin": noise(MB, seed=2)})
    barn = lab["barn"]
    assert run(desk, work, "--node", "barn", "--", "true").returncode == 0
    # What came is held for the job that may follow; it is counted as needed so long.
    assert cache(barn)["bytes_used"] >= MB
    assert "removed" in barn.says("cache", "clear")


def test_only_what_is_named_travels_and_as_it_was_then(desk, work):
    plant(work, {"in.txt": "then\n", "secret.txt": "no\n", "lib/x.py": "pass\n"})
    script = "cat in.txt; ls"
    word = desk.says("run", "--detach", "--cwd", str(work), "--node", "attic", "--ship",
                     str(work / "in.txt"), "--ship", str(work / "lib"), "--", "sh", "-c",
                     script).strip()  # fmt: skip
    plant(work, {"in.txt": "now\n"})
    assert desk("wait", word).returncode == 0

    assert desk.says("logs", word) == "then\nin.txt\nlib\n"


@pytest.mark.parametrize(("what", "why"), [("pipe", "a pipe"), ("sock", "a socket")])
def test_what_may_not_travel_is_refused_by_name(desk, work, what, why):
    if what == "pipe":
        os.mkfifo(work / "pipe")
    else:
        here = os.open(".", os.O_RDONLY)
        os.chdir(work)
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind("sock")
        finally:
            os.fchdir(here)
            os.close(here)
    done = run(desk, work, "--node", "attic", "true")

    assert done.returncode == 2
    assert why in done.stderr
    assert "--ship" in done.stderr
    assert what in done.stderr


def test_a_link_that_leads_outside_stays_at_home_and_the_rest_travels(desk, work):
    plant(work, {"a.txt": "one\n", "in": ("a.txt",), "out": ("/etc/passwd",)})
    done = run(desk, work, "--node", "attic", "--", "ls", "-A")

    assert (done.returncode, done.stdout) == (0, "a.txt\nin\n"), done.stderr
    assert done.stderr == "grid: links that lead outside stay at home: out -> /etc/passwd\n"
    dry = run(desk, work, "--dry-run").stdout
    assert "1 file and 1 link, " in dry
    assert "out -> /etc/passwd" in dry.partition("stays at home")[2]


@pytest.mark.parametrize(
    ("where", "why"),
    [("", "is your home"), ("/", "is the root of all files"), ("/tmp", "holds your home"), ("/var/tmp", "is for temporary files")],
)  # fmt: skip
def test_a_job_from_home_or_tmp_finds_an_empty_directory_elsewhere_and_says_so(desk, where, why):
    root = where or str(desk.root)
    done = run(desk, root, "--node", "attic", "--", "ls", "-A")
    (said,) = done.stderr.splitlines()

    assert (done.returncode, done.stdout) == (0, "")
    assert said.startswith(f"grid: nothing of {root} travels (it {why}")
    assert said.endswith("): it starts in an empty directory")
    assert desk.says("run", "--dry-run", "--cwd", root).strip() == said.removeprefix("grid: ")


def test_a_dry_run_lists_what_then_travels(desk, work):
    plant(work, {".gitignore": "data/\n", "data/d": "12", ".env": "x", "a.py": "12345", "b/c": "1"})
    seen = ("--node", "attic", "--", "find", ".", "-type", "f")
    for words, names in [
        ((), {".gitignore", "a.py", "b/c"}),
        (("--ship-ignored",), {".gitignore", "a.py", "b/c", "data/d"}),
        (("--ship", str(work / "data"), "--ship", str(work / ".env")), {"data/d", ".env"}),
        (("--ship", "none"), set()),
    ]:
        dry = json.loads(run(desk, work, *words, "--dry-run", "--json").stdout)
        real = run(desk, work, *words, *seen)

        assert {path for path, _ in dry["files"]} == names
        assert {line.removeprefix("./") for line in real.stdout.splitlines()} == names
        assert dry["size_bytes"] == sum((work / name).stat().st_size for name in names)
    assert run(desk, work, "--dry-run").stdout.splitlines() == [
        f"3 files, 12 B, would travel from {work}",
        "         6 B  .gitignore", "         5 B  a.py", "         1 B  b/c",
        "stays at home", "  may hold secrets, name it to send it: .env", "  .gitignore: data/",
    ]  # fmt: skip


def test_secrets_and_what_git_ignores_stay_at_home_unless_they_are_named(desk, work):
    plant(work, {".gitignore": "data/\n", "data/d": "x", "node_modules/m": "x", ".env": "x",
                 ".venv/pyvenv.cfg": "", "a.py": "x"})  # fmt: skip
    script = ("--node", "attic", "--", "find", ".", "-type", "f", "-not", "-name", ".gitignore")
    plain = run(desk, work, *script)
    named = run(desk, work, "--ship", str(work / ".env"), *script)

    assert (plain.returncode, plain.stdout) == (0, "./a.py\n"), plain.stderr
    assert (named.returncode, named.stdout) == (0, "./.env\n"), named.stderr


def test_a_path_outside_is_refused(desk, work):
    done = run(desk, work, "--ship", "/etc/passwd", "--node", "attic", "true")

    assert done.returncode == 2
    assert "/etc/passwd" in done.stderr


def test_gridignore_keeps_files_at_home(desk, work):
    plant(work, {".gridignore": "*.log\nbuild/\n", "a.log": "x", "build/b": "x", "c": "x"})

    assert run(desk, work, "--node", "attic", "--", "ls").stdout == "c\n"


def test_outputs_come_home_before_the_job_has_ended(desk, work):
    plant(work, {"in": "1", "results/old.csv": "old"})
    done = run(desk, work, "--node", "attic", "--output", "results/**", "--output", "model.bin",
               "--", "sh", "-c", "mkdir -p results/a; echo new > results/a/b.csv; echo m > model.bin;"
               " echo tmp > scratch; echo old > results/old.csv")  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert (work / "results/a/b.csv").read_text() == "new\n"
    assert (work / "model.bin").read_text() == "m\n"
    assert (work / "results/old.csv").read_text() == "old\n"
    assert not (work / "scratch").exists()


@pytest.mark.parametrize(("words", "kept"), [((), "mine\n"), (("--overwrite",), "theirs\n")])
def test_outputs_never_replace_what_changed_meanwhile_unless_told(desk, work, words, kept):
    plant(work, {"out.txt": "before\n"})
    word = desk.says(
        "run", "--detach", "--cwd", str(work), "--node", "attic", "--output", "out.txt", *words,
        "--", "sh", "-c", "sleep 1; echo theirs > out.txt",
    ).strip()  # fmt: skip
    awaited(lambda: job(desk, word)["state"] == "running")
    plant(work, {"out.txt": "mine\n"})
    assert desk("wait", word).returncode == 0

    assert (work / "out.txt").read_text() == kept
    told = story(desk, word)
    assert ("kept beside what has changed here meanwhile or did not travel: out.txt" in told) == (
        not words
    ), told


def test_a_job_that_waits_for_its_files_is_cancelled(desk, work):
    plant(work, {"large.bin": noise(60 * MB, seed=4)})
    word = desk.says("run", "--detach", "--cwd", str(work), "--node", "attic", "--", "sleep",
                     "1000").strip()  # fmt: skip
    desk.says("cancel", word)

    assert desk("wait", word).returncode == 125
    assert job(desk, word)["state"] == "cancelled"


def test_an_array_elsewhere_has_its_files_and_its_outputs_come_home(desk, work):
    plant(work, {"base": "7"})
    done = run(desk, work, "--array", "0-5", "--avoid", "desk", "--output", "out/*", "--", "sh",
               "-c", "mkdir -p out; cp base out/$GRID_ARRAY_INDEX")  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in (work / "out").iterdir()} == {
        str(index): "7" for index in range(6)
    }


def test_a_python_environment_is_built_once_and_used(lab, desk, work):
    plant(work, {"requirements.txt": "", "a.py": "import sys; print(sys.prefix)"})
    words = ("--node", "attic", "--python-env", str(work / "requirements.txt"))
    first = run(desk, work, *words, "--", "python", "a.py")
    second = run(desk, work, *words, "--", "python", "a.py")
    here = run(desk, work, *words[2:], "--node", "desk", "--", "python", "a.py")

    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert "/environments/" in first.stdout
    assert str(lab["attic"].home) in first.stdout
    assert str(desk.home) in here.stdout


def test_a_python_that_is_not_there_is_told_before_the_job_runs(desk, work):
    plant(work, {"pyproject.toml": "[project]\nname='x'\nversion='1'\nrequires-python='>=9.1'\n"})
    done = run(desk, work, "--node", "attic", "--python-env", str(work / "pyproject.toml"), "--",
               "sh", "-c", "echo ran")  # fmt: skip

    assert done.stdout == ""
    assert done.returncode == 125
    assert "wants Python >=9.1" in done.stderr


def test_inputs_are_on_a_second_machine_before_the_job_is_safe(lab, desk, work):
    plant(work, {"data": noise(MB, seed=3)})
    word = desk.says("run", "--detach", "--cwd", str(work), "--node", "desk", "--ship", str(work),
                     "--wait-safe", "--", "sleep", "1000").strip()  # fmt: skip
    holders = [lab[name] for name in ("attic", "barn")]
    seen = [cache(one)["bytes_pinned"] for one in holders]
    desk.says("cancel", word)

    assert max(seen) >= MB


def test_a_transfer_goes_on_after_the_receiver_was_killed(lab, desk, work):
    plant(work, {f"{at}.bin": noise(8 * MB, seed=10 + at) for at in range(10)})
    attic = lab["attic"]
    before = received(attic)
    word = desk.says("run", "--detach", "--cwd", str(work), "--node", "attic", "--", "sh", "-c",
                     "cat *.bin | wc -c").strip()  # fmt: skip
    awaited(lambda: received(attic) - before > 8 * MB)
    attic.kill("agent")
    assert desk("wait", word).returncode == 0, story(desk, word)

    assert desk.says("logs", word).strip() == str(80 * MB)
    assert received(attic) < 73 * MB, "it began anew"
    assert cache(attic)["hits"] > 10
    lab.settled(lab.members)


def test_a_lot_of_small_files_arrive_as_they_were(desk, work):
    plant(work, {f"d{number % 40}/{number}.txt": f"{number}\n" for number in range(4_000)})
    script = "find . -name '*.txt' | LC_ALL=C sort | xargs cat | sha256sum"
    done = run(desk, work, "--node", "barn", "--", "sh", "-c", script)
    paths = sorted(path.relative_to(work).as_posix() for path in work.rglob("*.txt"))
    whole = "".join((work / path).read_text() for path in paths)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == hashlib.sha256(whole.encode()).hexdigest()


@pytest.fixture
def busy(desk):
    """The desk has no room: what is submitted there runs elsewhere, or waits."""
    word = desk.says("run", "--detach", "--node", "desk", "--cpus", "2", "--", "sleep", "1000")
    awaited(lambda: job(desk, word.strip())["state"] == "running")
    yield
    desk.says("cancel", word.strip())


@pytest.mark.usefixtures("busy")
def test_a_job_without_room_at_home_takes_its_directory_along(desk, work):
    plant(work, {"in.txt": "seven\n"})
    done = run(desk, work, "--output", "out.txt", "--", "sh", "-c", "cp in.txt out.txt; cat in.txt")

    assert (done.returncode, done.stdout) == (0, "seven\n"), done.stderr
    assert (work / "out.txt").read_text() == "seven\n"


@pytest.mark.usefixtures("busy")
def test_a_job_whose_directory_may_not_travel_waits_for_room_at_home(desk, work):
    os.mkfifo(work / "pipe")
    word = desk.says("run", "--detach", "--cwd", str(work), "--", "true").strip()
    awaited(lambda: "stays here" in story(desk, word), lambda: story(desk, word))

    assert "pipe (a pipe)" in story(desk, word)
    assert job(desk, word)["state"] == "waiting"
    desk.says("cancel", word)


def test_a_transfer_goes_on_after_the_wire_was_cut():
    with MeshLab.on_wire(["desk", "attic"], config=PLAIN) as lab:
        lab.form(lab.members)
        desk = lab["desk"]
        work = plant(desk.dir / "cut", {f"{at}.bin": noise(8 * MB, seed=at) for at in range(10)})
        lab.host("desk").throttle(160)  # Else it is there before anybody can cut the wire.
        word = desk.says("run", "--detach", "--cwd", str(work), "--node", "attic", "--", "sh", "-c",
                         "cat *.bin | wc -c").strip()  # fmt: skip
        awaited(lambda: "attic is receiving" in desk.says("explain", word))
        lab.host("attic").unplug()
        awaited(lambda: desk.health().get("attic") == "dead")
        lab.host("desk").throttle(10_000)
        lab.host("attic").plug_in()
        assert desk("wait", word).returncode == 0, story(desk, word)

        assert desk.says("logs", word).strip() == str(80 * MB)
        assert received(lab["attic"]) < 80 * MB + 30 * MB, "it began anew"
