"""From a run to the words of podman or docker, without either."""

from pathlib import Path

import pytest

from distributed_grid.edges.runner import container
from distributed_grid.edges.runner.container import (
    Runtime,
    has_runtime,
    in_container,
    removal,
    runtime,
)
from distributed_grid.edges.runner.program import NotRun
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.keeper import Limits, Run, Slot

PODMAN = Runtime(("podman",), env={"PATH": "/usr/bin", "HOME": "/root"})
DOCKER = Runtime(("/usr/bin/docker",))


def a_run(**fields: object) -> Run:
    given = dict(
        attempt="a1",
        job=job_id_of("lab"),
        argv=("python", "train.py"),
        env={},
        cwd="/data/work",
        output_dir="/out",
        scratch_dir="/scratch/a1",
        image="python:3.12",
    )
    return Run(**{**given, **fields})


def words_after(option: str, argv: tuple[str, ...]) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def has(argv: tuple[str, ...], *words: str) -> bool:
    return any(argv[at : at + len(words)] == words for at in range(len(argv)))


def test_image_and_command_come_last_and_nothing_of_them_is_an_option() -> None:
    argv = in_container(a_run(argv=("--privileged",), image="-v"), PODMAN).argv

    assert argv[:2] == ("podman", "run")
    assert argv[-3:] == ("--", "-v", "--privileged")


def test_directory_and_scratch_are_mounted_where_they_are() -> None:
    argv = in_container(a_run(cwd="/a,b"), PODMAN).argv

    assert words_after("--mount", argv) == [
        'type=bind,"source=/a,b","destination=/a,b"',
        "type=bind,source=/scratch/a1,destination=/scratch/a1",
    ]
    assert has(argv, "--workdir", "/a,b")


def test_limits_are_told_in_the_runtimes_words() -> None:
    limits = Limits(cpu_milli=1_500, memory_bytes=64 << 20, processes_max=100)
    argv = in_container(a_run(limits=limits, slot=Slot(cores=(2, 5))), PODMAN).argv

    assert has(argv, "--cpus", "1.500")
    assert has(argv, "--memory", "67108864b")
    assert has(argv, "--memory-swap", "67108864b")
    assert has(argv, "--pids-limit", "100")
    assert has(argv, "--cpuset-cpus", "2,5")


def test_what_is_not_limited_is_not_told() -> None:
    argv = in_container(a_run(limits=Limits(processes_max=0)), PODMAN).argv

    assert not {"--cpus", "--memory", "--pids-limit", "--cpuset-cpus"} & set(argv)


def test_values_are_in_the_clients_environment_and_not_in_its_words() -> None:
    run = in_container(a_run(env={"MINE": "hush", "PATH": "/opt/bin"}), PODMAN)

    assert words_after("--env", run.argv) == [
        "GRID_WORKDIR",
        "MINE",
        "PATH=/opt/bin",
        "GRID_ARRAY_INDEX",
    ]
    assert run.env == {
        "MINE": "hush",
        "GRID_WORKDIR": "/scratch/a1",
        "PATH": "/usr/bin",
        "HOME": "/root",
    }


def test_granted_devices_are_given_by_uuid() -> None:
    run = a_run(devices=("GPU-1", "GPU-2"))

    assert words_after("--device", in_container(run, PODMAN).argv) == [
        "nvidia.com/gpu=GPU-1",
        "nvidia.com/gpu=GPU-2",
    ]
    assert has(in_container(run, DOCKER).argv, "--gpus", '"device=GPU-1,GPU-2"')


def test_devices_without_a_uuid_come_by_their_files() -> None:
    argv = in_container(a_run(devices=("MI300X#0",)), PODMAN).argv

    expected = [node for node in ("/dev/kfd", "/dev/dri") if Path(node).exists()]
    assert words_after("--device", argv) == expected


@pytest.mark.parametrize(
    ("through", "words"), [(PODMAN, ("--userns", "keep-id")), (DOCKER, ("--user", "7:8"))]
)
def test_files_stay_the_users_own(through: Runtime, words: tuple[str, str]) -> None:
    assert has(in_container(a_run(), through._replace(user=(7, 8))).argv, *words)
    assert not has(in_container(a_run(), through).argv, *words)


def test_options_of_the_person_come_before_the_image_and_their_network_wins() -> None:
    argv = in_container(a_run(), PODMAN._replace(options=("--network=none",))).argv

    assert has(argv, "--network=none", "--", "python:3.12")
    assert "host" not in argv


def test_an_init_is_asked_for_only_where_there_is_one() -> None:
    assert "--init" in in_container(a_run(), PODMAN).argv
    assert "--init" not in in_container(a_run(), PODMAN._replace(has_init=False)).argv


def test_the_container_is_found_by_its_attempt() -> None:
    argv = in_container(a_run(), PODMAN).argv

    assert words_after("--name", argv) == ["grid-a1"]
    assert removal("a1", PODMAN)[-1] == "grid-a1"
    assert "--ignore" not in removal("a1", DOCKER)


def test_the_root_is_not_mounted() -> None:
    with pytest.raises(NotRun, match="--cwd"):
        in_container(a_run(cwd="/"), PODMAN)


def test_podman_is_preferred_and_docker_will_do(tmp_path: Path) -> None:
    for name in ("podman", "docker"):
        (tmp_path / name).touch(mode=0o755)

    assert runtime({"PATH": str(tmp_path)}).words == ("podman",)
    assert has_runtime({"PATH": str(tmp_path)})
    (tmp_path / "podman").unlink()
    found = runtime({"PATH": str(tmp_path)})
    assert (found.words, found.is_docker, found.has_init) == (("docker",), True, True)


def test_a_person_says_how_containers_are_run(tmp_path: Path) -> None:
    (tmp_path / "podman").touch(mode=0o755)
    told = {
        container.RUNTIME: "podman --runtime 'my runc'",
        container.OPTIONS: "--ulimit nofile=9:9",
    }
    found = runtime({"PATH": str(tmp_path), **told})

    assert found.words == ("podman", "--runtime", "my runc")
    assert found.options == ("--ulimit", "nofile=9:9")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, "podman or docker was not found"),
        ({container.RUNTIME: "nerdctl"}, "nerdctl was not found"),
        ({container.OPTIONS: "'"}, "No closing quotation"),
    ],
)
def test_no_runtime_is_a_failure_with_words(tmp_path: Path, told: dict[str, str], why: str) -> None:
    with pytest.raises(NotRun, match=why) as caught:
        runtime({"PATH": str(tmp_path), **told})

    assert caught.value.code == 125
    assert not has_runtime({"PATH": str(tmp_path), **told})
