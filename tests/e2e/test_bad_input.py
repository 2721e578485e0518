"""Does every malformed file get one clear line, at once, and never a traceback?"""

import json
import os
import subprocess
import time

import pytest

from tests.conftest import VENV_BIN

pytestmark = pytest.mark.unmeasured

ID = "5f0c" + "0" * 60
NODE = {"id": ID, "name": "attic", "capabilities": {"cpu_cores": 4}, "capacity": {"cpu_cores": 4}}
JOB = {"name": "job"}
SECONDS_MAX = 5
SECONDS_MAX_OF_200_MB = 20  # They take two to five; this machine may be busy.


def node(**change):
    return json.dumps([NODE | change])


def job(**change):
    return json.dumps(JOB | change)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)
YAML_NODE = f"- {{id: {ID}, name: attic, capabilities: {{}}, capacity: {{}}, %s}}"

# What is wrong, the file's ending, its text, the path inside it, words of the line.
NODES_CASES = [
    ("wrong type", "json", node(name=5), "$[0].name", "a name of printable characters"),
    ("no list", "json", "{}", "$", "expected a list of nodes"),
    ("no node", "json", "[5]", "$[0]", "expected a mapping"),
    ("unknown key", "json", node(lables={}), "$[0]", "Did you mean 'labels'?"),
    ("unknown key, yaml", "yaml", YAML_NODE % "lables: {}", "$[0]", "Did you mean 'labels'?"),
    (
        "unknown key inside",
        "json",
        node(capabilities={"cpus": 4}),
        "$[0].capabilities",
        "unknown key 'cpus'",
    ),
    ("missing key", "json", json.dumps([{"id": ID}]), "$[0]", "the key 'name'"),
    ("duplicate key", "json", node()[:-2] + ', "name": "x"}]', "$[0]", "the key 'name' twice"),
    ("duplicate key, yaml", "yaml", YAML_NODE % "name: x", "$[0]", "has the key 'name' twice"),
    ("duplicate id", "json", json.dumps([NODE, NODE]), "$[1].id", "is the id of $[0] too"),
    (
        "negative amount",
        "json",
        node(capabilities={"cpu_cores": -4}),
        "$[0].capabilities.cpu_cores",
        "0 or more",
    ),
    ("negative age", "json", node(age_seconds=-1), "$[0].age_seconds", "from 0"),
    ("NaN", "json", node(price_per_hour=float("nan")), "$", "is not JSON"),
    ("NaN, yaml", "yaml", YAML_NODE % "price_per_hour: .nan", "$[0].price_per_hour", "a price"),
    ("NaN, as text", "json", node(price_per_hour="nan"), "$[0].price_per_hour", "a price"),
    ("infinity", "yaml", YAML_NODE % "age_seconds: Infinity", "$[0].age_seconds", "seconds"),
    ("10^30", "json", node(price_per_hour=10**30), "$[0].price_per_hour", "a price from 0"),
    ("10^30, yaml", "yaml", YAML_NODE % f"jobs: {10**30}", "$[0].jobs", "a count from 0"),
    (
        "10^30 bytes",
        "json",
        node(capabilities={"memory": 10**30}),
        "$[0].capabilities.memory",
        "an amount of bytes",
    ),
    ("1e9999999", "yaml", YAML_NODE % "age_seconds: 1e9999999", "$[0].age_seconds", "seconds"),
    (
        "1e9999999 cores",
        "json",
        node(capabilities={"cpu_cores": "1e9999999"}),
        "$[0].capabilities.cpu_cores",
        "at most 1000000 cores",
    ),
    ("5000 digits", "json", node(jobs=0).replace(": 0}", f": {'9' * 5_000}}}"), "$", "is not JSON"),
    ("id too short", "json", node(id="5f0c"), "$[0].id", "64 hex digits (has 4 characters)"),
    ("id not hex", "json", node(id="g" * 64), "$[0].id", "64 hex digits"),
    ("all-digit id", "json", node(id=int("1" * 64)), "$[0].id", "Put the id in quotes"),
    ("binary junk", "json", bytes(range(256)), "$", "is not text"),
    ("binary junk, yaml", "yaml", bytes(range(128)) * 40, "$", "is not YAML"),
    ("an ELF file", "", b"\x7fELF\x02\x01\x01\x00" + b"\0" * 64, "$", "is not YAML"),
    ("UTF-16", "yaml", "- a: b".encode("utf-16"), "$", "is not text"),
    ("deep JSON lists", "json", "[" * 100_000, "$", "is nested deeper than 64"),
    ("deep JSON objects", "json", '{"a":' * 100_000, "$", "is nested deeper than 64"),
    ("deep, closed JSON", "json", "[" * 100_000 + "]" * 100_000, "$", "nested deeper than 64"),
    ("deep YAML flow", "yaml", "[" * 100_000, "$[0]", "is nested deeper than 64"),
    ("deep YAML block", "yaml", "- " * 100_000, "$[0]", "is nested deeper than 64"),
    ("deep YAML map", "yaml", "{a: " * 100_000, "$.a", "is nested deeper than 64"),
    ("anchor", "yaml", "- &a {id: 1}", "$", "uses the anchor &a"),
    ("alias", "yaml", "- x\n- *a", "$", "uses the alias *a"),
    ("billion laughs", "yaml", BOMB, "$", "uses the anchor &a"),
    ("merge key", "yaml", "- <<: {a: 1}", "$[0]", "unknown key '<<'"),
    ("tag", "yaml", "- !!python/object/apply:os.system [id]", "$", "uses the tag"),
    ("two documents", "yaml", "[]\n---\n[]", "$", "holds a second document"),
    ("empty", "yaml", "", "$", "is empty"),
    ("empty, json", "json", "  \n", "$", "is empty"),
    ("comments only", "yaml", "# nothing\n", "$", "is empty"),
    ("control character", "json", node(name="a\x1b[2Jb"), "$[0].name", "printable"),
    ("line end in a name", "yaml", YAML_NODE.replace("attic", r'"a\nb"') % "jobs: 1", "$", "name"),
    ("right to left", "json", node(name="a\u202eb"), "$[0].name", "printable"),
    (
        "escape in a key",
        "json",
        '[{"a\\u001b[31m": {"b": 1, "b": 2}}]',
        "$[0].a\\x1b[31m",
        "the key 'b' twice",
    ),
    ("escape in a key, yaml", "yaml", r'- {"a\e[31m": {b: 1, b: 2}}', r"$[0].a\x1b", "twice"),
    (
        "capacity above capabilities",
        "json",
        node(capacity={"cpu_cores": 5}),
        "$[0].capacity",
        "Its free cpu_cores exceed what it has",
    ),
    (
        "duplicate GPU model",
        "json",
        node(capabilities={"gpus": [{"model": "H100"}, {"model": "h100"}]}, capacity={}),
        "$[0].capabilities.gpus",
        "each GPU model by its name, once",
    ),
    (
        "free GPU that is not there",
        "json",
        node(capacity={"gpus": [{"model": "H100"}]}),
        "$[0].capacity.gpus",
        "at most the 0 H100",
    ),
    ("list for a map", "json", node(labels=["a"]), "$[0].labels", "a mapping of names to text"),
    ("number for a label", "json", node(labels={"a": 1}), "$[0].labels.a", "expected text"),
    ("null", "json", node(capabilities=None), "$[0].capabilities", "expected a mapping"),
    ("yes", "yaml", YAML_NODE % "pretended: yes", "$[0].pretended", "true or false"),
    ("a tab", "yaml", "-\n\tid: 1", "$", "is not YAML"),
    ("half a file", "json", node()[:-9], "$", "is not JSON"),
    ("lone surrogate", "json", '[{"id": "\\ud800"}]', "$", "is not JSON"),
    ("long value", "json", node(id="f" * 100_000), "$[0].id", "has 100000 characters"),
]
JOB_CASES = [
    ("no cpus", "json", job(cpus=0), "$.cpus", "cpus of 0.001 and up"),
    ("fine cpus", "yaml", "{name: x, cpus: 0.0001}", "$.cpus", "steps of 0.001"),
    ("NaN", "yaml", "{name: x, cpus: .nan}", "$.cpus", "a number of cores"),
    ("one and a half GPUs", "json", job(gpus=1.5), "$.gpus.count", "a share of one GPU"),
    ("no name", "json", "{}", "$", "the key 'name'"),
    ("text", "yaml", "hello", "$", "expected a mapping"),
    ("in a list", "json", f"[{job()}, {job(memory='lots')}]", "$[1].memory", "bytes"),
    ("unknown class", "json", job(require={"class": "desk"}), "$.require.class", "one of"),
    ("short id", "json", job(id="9a"), "$.id", "64 hex digits"),
    ("all-digit id", "json", job(id=int("9" * 64)), "$.id", "Put the id in quotes"),
]


@pytest.fixture
def refused(grid, tmp_path):
    """Run `grid place` on a file that it must refuse, and hand back the line."""

    def run(kind, file, *, stdin=None, seconds_max=SECONDS_MAX):
        others = {"nodes": tmp_path / "good-nodes.json", "job": tmp_path / "good-job.json"}
        others["nodes"].write_text(json.dumps([NODE]))
        others["job"].write_text(json.dumps(JOB))
        others[kind] = file
        start = time.monotonic()
        done = grid(
            "place",
            *("--nodes", others["nodes"], "--job", others["job"]),
            stdin=stdin,
            coverage=False,
        )
        took_s = time.monotonic() - start
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        line = done.stderr.removesuffix("\n")
        assert line.isprintable()
        assert line.startswith("grid: ")
        assert line.endswith(".")
        assert len(line) < 1_000
        assert took_s < seconds_max
        return line

    return run


@pytest.mark.parametrize(
    ("ending", "text", "path", "words"),
    [case[1:] for case in NODES_CASES],
    ids=[case[0] for case in NODES_CASES],
)
def test_a_malformed_fleet_gets_one_line(refused, tmp_path, ending, text, path, words):  # noqa: PLR0917
    file = tmp_path / (f"nodes.{ending}" if ending else "nodes")
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))

    line = refused("nodes", file)

    assert line.startswith(f"grid: {file}: {path}")
    assert words in line


@pytest.mark.parametrize(
    ("ending", "text", "path", "words"),
    [case[1:] for case in JOB_CASES],
    ids=[case[0] for case in JOB_CASES],
)
def test_a_malformed_job_gets_one_line(refused, tmp_path, ending, text, path, words):  # noqa: PLR0917
    file = tmp_path / f"job.{ending}"
    file.write_text(text)

    line = refused("job", file)

    assert line.startswith(f"grid: {file}: {path}: ")
    assert words in line


def test_an_all_digit_id_in_yaml_is_text_and_fine(grid, tmp_path):
    nodes, job_file = tmp_path / "nodes.yaml", tmp_path / "job.yaml"
    nodes.write_text(
        f"- {{id: {'1' * 64}, name: n, capabilities: {{cpu_cores: 1}}, capacity: {{cpu_cores: 1}}}}"
    )
    job_file.write_text(f"{{name: x, id: {'0' * 64}}}")

    done = grid("place", "--nodes", nodes, "--job", job_file, "--json")

    assert json.loads(done.stdout)["responsible"] == "1" * 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "words"), [("yaml", "is larger than 16 MiB"), ("json", "is not JSON")]
)
def test_200_megabytes_of_nothing(refused, tmp_path, ending, words):
    file = tmp_path / f"huge.{ending}"
    with file.open("wb") as stream:
        stream.truncate(200_000_000)

    assert words in refused("nodes", file, seconds_max=SECONDS_MAX_OF_200_MB)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "piece", "words"),
    [
        ("json", b"[],", "holds more than 20,000,000 values"),
        ("json", b'"a",' * 10 + b" " * 200, "$[0]: expected a mapping"),
        ("json", b'{"a' + b"a" * 4_000, "is nested deeper than 64 levels"),
        ("json", b"a" * 4_000 + b'"', "is not JSON"),
        ("yaml", b"- a: 1\n", "is larger than 16 MiB"),
    ],
)
def test_200_megabytes_of_something(refused, tmp_path, ending, piece, words):
    file = tmp_path / f"huge.{ending}"
    whole = piece * (200_000_000 // len(piece))
    file.write_bytes(
        b"[" + whole.removesuffix(b",").rstrip(b", ") + b"]" if ending == "json" else whole
    )

    line = refused("nodes", file, seconds_max=SECONDS_MAX_OF_200_MB)
    file.unlink()

    assert words in line


@pytest.mark.slow
def test_more_than_256_mebibytes_of_json(refused, tmp_path):
    file = tmp_path / "huge.json"
    with file.open("wb") as stream:
        stream.truncate((256 << 20) + 1)

    line = refused("nodes", file, seconds_max=SECONDS_MAX_OF_200_MB)

    assert "is larger than 256 MiB" in line


def test_files_that_are_no_files(refused, tmp_path):
    assert "Is a directory" in refused("nodes", tmp_path)
    assert "No such file" in refused("nodes", tmp_path / "missing.yaml")
    assert "is larger than" in refused("nodes", "/dev/zero")
    assert "is empty" in refused("nodes", "/dev/null")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "Too many levels" in refused("nodes", loop)
    assert "No such file" in refused("nodes", tmp_path / "two\nlines \x1b[31m")


@pytest.mark.slow
def test_a_pipe_to_which_nobody_writes_is_given_up(refused, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert "silent for 5 seconds" in refused("nodes", pipe, seconds_max=2 * SECONDS_MAX)


def test_a_file_that_may_not_be_read(tmp_path, clean_env):
    file = tmp_path / "secret.yaml"
    file.write_text("[]")
    file.chmod(0)
    command = [VENV_BIN / "grid", "place", "--nodes", file, "--job", file]
    if os.geteuid() == 0:  # Root reads everything, unless it gives up the right to.
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]

    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == f"grid: {file}: $: cannot be read: Permission denied. Check the path.\n"


def test_a_file_that_breaks_while_it_is_read(refused):
    assert "cannot be read: Input/output error" in refused("nodes", "/proc/self/mem")


def test_junk_on_standard_input_is_named_as_such(refused):
    assert refused("nodes", "-", stdin=b"\xff\xfe").startswith("grid: -: $: is not text")
    assert refused("nodes", "-", stdin=b"").startswith("grid: -: $: is empty")
