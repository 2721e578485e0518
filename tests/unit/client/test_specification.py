import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.client import environment
from distributed_grid.client.specification import array_of, gpus_of, specification
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.job import Array


def test_a_list_is_executed_as_it_is_and_text_runs_under_a_shell():
    assert specification(["make", "all"], {}).work.argv == ("make", "all")
    assert specification("make all | tee log", {}).work.argv == (
        "/bin/sh",
        "-c",
        "make all | tee log",
    )


def test_a_job_has_an_id_of_its_own_a_name_a_directory_and_a_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = specification(["/usr/bin/make"], {}), specification(["/usr/bin/make"], {})

    assert one.id != other.id
    assert len(one.id) == 64
    assert (one.name, one.work.cwd, one.request.cpu_milli) == ("make", str(tmp_path), 1_000)
    assert one.user


def test_every_wish_reaches_the_specification(tmp_path):
    spec = specification(["x"], dict(
        name="n", cpus="0.5", memory="1GiB", storage="2G", gpus="H100:2", resources={"tpu": 4},
        env={"A": "1"}, inherit_env=False, cwd=tmp_path, array="0-9:2%3", retries=2, max_losses=0,
        timeout="5m", image="alpine", wait_for_capacity=True, id="ab" * 32,
    ))  # fmt: skip

    assert (spec.id, spec.name, spec.retries, spec.losses_max) == ("ab" * 32, "n", 2, 0)
    assert (spec.request.cpu_milli, spec.request.memory_bytes) == (500, 1 << 30)
    assert (spec.request.storage_bytes, spec.request.custom) == (2 * 10**9, (("tpu", 4_000),))
    assert spec.request.gpus == GpuRequest(milli=2_000, model="H100")
    assert (spec.work.env, spec.work.cwd, spec.work.image) == ({"A": "1"}, str(tmp_path), "alpine")
    assert (spec.work.timeout_ms, spec.wait_for_capacity) == (300_000, True)
    assert spec.array == Array(start=0, stop=9, step=2, width=3)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("0-999%50", Array(start=0, stop=1_000, width=50)),
        ("7", Array(start=7, stop=8)),
        ("3-3", Array(start=3, stop=4)),
        ("0-9:2", Array(start=0, stop=9, step=2)),
        ("27, 47,60-69%4", Array(parts=((27, 28, 1), (47, 48, 1), (60, 70, 1)), width=4)),
        ("20-28:4,0-3", Array(parts=((0, 4, 1), (20, 29, 4)))),
        (5, Array(start=0, stop=5)),
        (range(2, 10, 3), Array(start=2, stop=9, step=3)),
    ],
)
def test_an_array_is_written_in_these_ways(told, expected):
    assert array_of(told) == expected


@pytest.mark.parametrize(
    "told", ["", "a", "9-3", "0-", "-1", "0-9:0", "0-9%0", "0-99999999999", "1,,2", "1,1",
             "0-9,5-7", "0-9,3:0", "1-2:0,5", ",1", "0-9%", "٣", 0, -1, range(5, 0, -1), "0-99999999"]
)  # fmt: skip
def test_an_array_that_means_nothing_is_refused(told):
    with pytest.raises(BadValue):
        array_of(told)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 20), st.integers(0, 20))
def test_an_array_has_exactly_the_indices_of_its_text(first, more, step, width):
    text = f"{first}-{first + more}:{step}" + (f"%{width}" if width else "")

    assert list(array_of(text).indices) == list(range(first, first + more + 1, step))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, None), ("0", None), (0, None),
        ("2", GpuRequest(milli=2_000)), (0.5, GpuRequest(milli=500)), ("0.5", GpuRequest(milli=500)),
        ("H100:2", GpuRequest(milli=2_000, model="H100")), ("any:1", GpuRequest(milli=1_000)),
        ("NVIDIA GeForce RTX 4090:1", GpuRequest(milli=1_000, model="RTX4090")),
    ],
)  # fmt: skip
def test_gpus_are_written_in_these_ways(told, expected):
    assert gpus_of(told) == expected


@pytest.mark.parametrize("told", ["H100", ":2", "1.5", "H100:", "H100:x", "-1", "5000", "nan"])
def test_gpus_that_mean_nothing_are_refused(told):
    with pytest.raises(BadValue):
        gpus_of(told)


@pytest.mark.parametrize(
    ("command", "wishes"),
    [
        ([], {}), ("", {}), ([""], {}), (["a\0b"], {}), (["\udcff"], {}),
        (["x"], {"cpus": "many"}), (["x"], {"memory": "1XB"}), (["x"], {"timeout": "0"}),
        (["x"], {"name": " "}), (["x"], {"name": "a\nb"}), (["x"], {"name": "n" * 300}),
        (["x"], {"retries": -1}), (["x"], {"id": "short"}), (["x"], {"resources": {"CPU": 1}}),
        (["x"], {"env": {"A=B": "1"}}), (["x"], {"env": {"GRID_JOB_ID": "1"}}),
        (["x"], {"env": {"A": "\0"}}),
    ],
)  # fmt: skip
def test_a_wish_that_means_nothing_is_refused_before_anything_is_sent(command, wishes):
    with pytest.raises(BadValue):
        specification(command, wishes)


def test_a_directory_that_is_gone_is_told(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(BadValue, match="working directory"):
        specification(["x"], {})


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "TOKEN", "MY_SECRET_THING", "PGPASSWORD", "db_password", "API_KEY",
     "SSH_PRIVATE_KEY_FILE", "AWS_REGION", "AWS_ACCESS_KEY_ID", "GRID_TICKET", "MYSQL_PASSWD",
     "GOOGLE_APPLICATION_CREDENTIALS", "OPENAI_APIKEY"],
)  # fmt: skip
def test_a_secret_is_not_inherited(name):
    assert environment.inherited({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "name", ["PATH", "KEYBOARD", "HOME", "MONKEY", "XAWS_A", "LC_ALL", "GRID_HOME"]
)
def test_an_ordinary_variable_is_inherited(name):
    assert environment.inherited({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", ["GRID_JOB_ID", "GRID_ARRAY_INDEX", "GRID_WORKDIR", "GRID_CPUS"])
def test_a_job_of_a_job_does_not_inherit_the_variables_of_the_outer_one(name):
    assert environment.inherited({name: "x"}) == {}


def test_a_variable_that_is_no_text_is_left_out():
    assert environment.inherited({"A": os.fsdecode(b"\xff"), "B": "1"}) == {"B": "1"}


def test_a_secret_passes_if_somebody_names_it():
    assert environment.from_words(["API_KEY", "A=b=c"], {"API_KEY": "k"}) == {
        "API_KEY": "k",
        "A": "b=c",
    }
    with pytest.raises(BadValue, match="NAME=value"):
        environment.from_words(["NOT_SET"], {})


def test_a_file_of_variables_is_read_line_by_line():
    text = "# comment\n\nA=1\nexport B = \"two words\"\nC='x'\nD=a=b\n"

    assert environment.from_file(text, file="f") == {
        "A": "1",
        "B": "two words",
        "C": "x",
        "D": "a=b",
    }


@pytest.mark.parametrize("text", ["A", "=1", "A=1\nnonsense here"])
def test_a_line_that_is_no_variable_is_told_with_its_number(text):
    with pytest.raises(BadInput, match="line"):
        environment.from_file(text, file="f")
