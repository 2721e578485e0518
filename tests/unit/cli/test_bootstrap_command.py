"""`grid bootstrap`: which machines are meant, told by words and by a configuration."""

import pytest

from tests.agent_stand_in import CannedAgent, serving

CONFIG = """\
ssh: {key_file: /ours}
nodes:
  - {name: desk}
  - {name: here, host: localhost}
  - {name: gpu1, host: 10.0.0.7, user: ada, port: 2222, ssh_key_path: /hers}
  - gpu2
"""


@pytest.fixture
def grid_with_ssh(tmp_path, clean_env, grid):
    """`grid` beside an agent called desk, and an ssh that notes its words and fails."""
    clean_env["GRID_HOME"] = str(tmp_path / "g")
    (tmp_path / "g").mkdir()
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/words\necho no such thing >&2\nexit 255\n')
    ssh.chmod(0o755)
    clean_env["PATH"] = f"{tmp_path / 'bin'}:{clean_env['PATH']}"
    with serving(CannedAgent(), tmp_path / "g/agent.sock"):
        yield grid


def called(tmp_path) -> list[str]:
    """What ssh was told of each machine."""
    lines = (tmp_path / "words").read_text().splitlines()
    return [line.split(" exec ")[0].split("BatchMode=yes ")[1] for line in lines if " -- " in line]


def test_without_words_all_of_the_configuration_but_this_machine_are_meant(grid_with_ssh, tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    done = grid_with_ssh("bootstrap", "--config", str(tmp_path / "c.yaml"))

    assert done.returncode == 1
    assert called(tmp_path) == ["-p 2222 -i /hers -- ada@10.0.0.7", "-i /ours -- gpu2"]
    assert done.stderr.count("ssh ended: no such thing") == 3  # Each, and the first at the end.


def test_a_word_that_is_a_name_stands_for_what_the_file_says_and_flags_count_more(
    grid_with_ssh, tmp_path
):
    (tmp_path / "c.yaml").write_text(CONFIG)
    file = ("--config", str(tmp_path / "c.yaml"))
    grid_with_ssh("bootstrap", *file, "--key", "/mine", "gpu1")
    grid_with_ssh("bootstrap", *file, "bob@gpu1")

    assert called(tmp_path) == ["-p 2222 -i /mine -- ada@10.0.0.7", "-- bob@gpu1"]


def test_nobody_named_and_two_of_one_name_are_refused(grid_with_ssh, tmp_path):
    nobody = grid_with_ssh("bootstrap")
    both = grid_with_ssh("bootstrap", "--name", "x", "a", "b")

    assert (nobody.returncode, both.returncode) == (2, 2)
    assert "which machine? Name it, or list it under nodes:" in nobody.stderr
    assert "bring them in one by one" in both.stderr
    assert not (tmp_path / "words").exists()


def test_a_file_that_cannot_be_read_is_named(grid_with_ssh, tmp_path):
    done = grid_with_ssh("bootstrap", "--config", str(tmp_path / "none.yaml"), "attic")

    assert done.returncode == 2
    assert "none.yaml" in done.stderr
