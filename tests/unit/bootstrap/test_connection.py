"""ssh that fails in every way: a stand-in for it says what the other side would."""

import json
from types import SimpleNamespace

import pytest

from distributed_grid.bootstrap import NotBrought
from distributed_grid.bootstrap.bringing import bring
from distributed_grid.bootstrap.connection import Connection, Target
from distributed_grid.config.cluster_sections import NodeConfig, SshConfig

READY = {"system": "Linux", "machine": "x86_64", "python": "3.11", "glibc": "2.36"}
MESH, HERE, THERE = "m" * 64, "a" * 64, "b" * 64
SEEN = {"mesh": "", "id": THERE, "name": "attic", "alive": [THERE]}
JOINED = {**SEEN, "mesh": MESH, "alive": [HERE, THERE]}
ANSWERS = (
    READY, {"is_installed": False}, {"place": "/there"}, {"was": "was started", **SEEN}, JOINED,
    JOINED,
)  # fmt: skip


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Sets what ssh prints, and what becomes of it then."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def say(answers, *, then: str = "cat > /dev/null"):
        lines = "".join(
            f"{one}\n" if isinstance(one, str) else f"GRID:{json.dumps(one)}\n" for one in answers
        )
        (tmp_path / "said").write_text(lines)
        script = tmp_path / "ssh"
        script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat {tmp_path}/said\n{then}\n')
        script.chmod(0o755)
        return tmp_path / "words"

    return say


class Agent:
    """Answers what `bring` asks of the agent here, and notes what it was told to do."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_seen = True

    def run(self, call):
        self.asked.append(call.__name__)
        if call.__name__ == "nodes":
            own = SimpleNamespace(id=HERE, is_self=True, health="alive")
            health = "alive" if self.is_seen else "dead"
            other = SimpleNamespace(id=THERE, is_self=False, health=health)
            return SimpleNamespace(mesh=MESH, nodes=(own, other))
        return SimpleNamespace(text="grid1secret", id="t1", recovery_file="/recovery")


@pytest.fixture
def agent():
    return Agent()


@pytest.fixture
def supply(tmp_path):
    sent = tmp_path / "bundle.zip"
    sent.write_bytes(b"x" * 300_000)
    return SimpleNamespace(
        fingerprint="0.2.0-1",
        system="Linux",
        machine="x86_64",
        misfit=lambda _: "",
        bundle=lambda: sent,
        wheel=lambda: sent,
        own_python=lambda: sent,
    )


def brought(agent, supply, *, answer_s: float = 30.0, said: list[str] | None = None):
    target = Target(host="attic", port=2222, key="/key")
    say = (said if said is not None else []).append
    return bring(target, agent, supply, say=say, answer_s=answer_s)


def test_all_steps_are_told_and_ssh_gets_its_options(ssh, agent, supply):
    words, said = ssh(["motd", *ANSWERS]), []
    one = brought(agent, supply, said=said)

    assert (one.name, one.node, one.was_installed, one.was_member) == ("attic", THERE, False, False)
    assert said == [
        "connects by ssh",
        "sends Grid, 0.3 MB",
        "Grid is installed in /there",
        "the agent was started",
        "founded a mesh; keep a copy of /recovery elsewhere",
        "joined the mesh",
    ]
    assert "BatchMode=yes -p 2222 -i /key -- attic exec sh -c" in words.read_text()
    assert "grid1" not in words.read_text()


@pytest.mark.parametrize("answered", range(len(ANSWERS)))
def test_ssh_that_dies_at_a_step_is_a_sentence_and_a_remedy(ssh, agent, supply, answered):
    ssh(ANSWERS[:answered], then="head -c 10 > /dev/null; echo Connection reset >&2; exit 255")
    with pytest.raises(NotBrought, match=r"'attic': ssh ended: Connection reset.*Run it again"):
        brought(agent, supply)

    assert ("revoke_ticket" in agent.asked) == (answered == 4)  # Nobody joins with it any more.


@pytest.mark.parametrize("answered", range(len(ANSWERS)))
def test_ssh_that_hangs_at_a_step_is_given_up(ssh, agent, supply, answered):
    ssh(ANSWERS[:answered], then="exec sleep 60")
    with pytest.raises(NotBrought, match=r"has not answered for 1 s.*ssh attic true"):
        brought(agent, supply, answer_s=1.0)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("root@attic: Permission denied (publickey).", "ssh-copy-id attic"),
        ("Host key verification failed.", "right machine by: ssh attic"),
        ("ssh: Could not resolve hostname attic", "how it is spelt"),
        ("connect to host attic port 22: Connection refused", "--port"),
        ("connect to host attic port 22: Connection timed out", "that it is on"),
    ],
)
def test_each_thing_that_ssh_says_has_its_remedy(ssh, agent, supply, said, remedy):
    ssh([], then=f"echo '{said}' >&2; exit 255")
    with pytest.raises(NotBrought) as caught:
        brought(agent, supply)

    assert said in str(caught.value)
    assert remedy in str(caught.value)


def test_what_the_other_side_says_is_passed_on(ssh, agent, supply):
    said: list[str] = []
    ssh([{"say": "waits for another bootstrap of this machine"}, {"why": "full", "remedy": "Rm"}])
    with pytest.raises(NotBrought, match=r"'attic': full\. Rm"):
        brought(agent, supply, said=said)

    assert said[-1] == "waits for another bootstrap of this machine"


def test_no_python_there_says_what_it_is_and_how_to_get_one(ssh, agent, supply):
    ssh(["GRID-NONE Linux riscv64"])
    with pytest.raises(NotBrought, match=r"no Python 3\.11.*riscv64.*uv python install"):
        brought(agent, supply)


@pytest.mark.parametrize(
    "case",
    [
        ("exit 2", "does not run there: tar: what is this"),
        ("exec sleep 60", "took longer than 1 s"),
    ],
)
def test_a_python_that_cannot_be_sent_is_a_sentence_too(ssh, agent, supply, monkeypatch, case):
    then, why = case
    monkeypatch.setattr("distributed_grid.bootstrap.connection.INDEX_S", 1)
    ssh(
        ["GRID-NONE Linux x86_64"],
        then=f'case "$*" in *tar*) echo "tar: what is this" >&2; {then} ;; *) cat > /dev/null ;; esac',
    )
    said: list[str] = []
    with pytest.raises(NotBrought, match=rf"no Python 3\.11.*x86_64.*{why}.*uv python install"):
        brought(agent, supply, said=said)

    assert said[-1] == "has no Python 3.11: sends this one, 0.3 MB"


@pytest.mark.parametrize(
    ("node", "ssh", "words"),
    [
        ({}, {}, "-- attic"),
        ({"host": "10.0.0.7", "user": "ada", "port": 2222}, {}, "-p 2222 -- ada@10.0.0.7"),
        ({"user": "ada", "host": "bob@h"}, {}, "-- bob@h"),
        ({"ssh_key_path": "~/a"}, {"key_file": "~/b"}, "-i /people/a -- attic"),
        ({}, {"key_file": "~/b"}, "-i /people/b -- attic"),
    ],
)
def test_a_machine_of_a_configuration_is_called_as_it_says(node, ssh, words, monkeypatch):
    monkeypatch.setenv("HOME", "/people")
    target = Target.listed(NodeConfig(name="attic", **node), SshConfig(**ssh))

    assert target.name == "attic"
    assert " ".join(target.words("", may_ask=False)).endswith(f"BatchMode=yes {words} ")


def test_a_machine_of_another_kind_gets_the_rest_from_its_index(ssh, agent, supply):
    supply.misfit = lambda _: "its processor is arm64, not x86_64"
    said: list[str] = []
    ssh(ANSWERS)
    brought(agent, supply, said=said)

    assert said[1].startswith("its processor is arm64, not x86_64: what Grid needs comes from")


def test_a_newer_installation_there_stays(ssh, agent, supply):
    said: list[str] = []
    supply.fingerprint = "0.3.9-ours"
    ssh([READY, {"is_installed": False, "installed": "0.10.0-theirs"}, *ANSWERS[3:]])
    brought(agent, supply, said=said)

    assert said[1] == "Grid 0.10.0-theirs is installed, which is newer than this one, and stays"
    assert "sends Grid" not in " ".join(said)


@pytest.mark.parametrize("there", ["0.3.9-other", "0.2.11-older", "", "current"])
def test_what_is_not_newer_is_replaced(ssh, agent, supply, there):
    said: list[str] = []
    supply.fingerprint = "0.3.9-ours"
    ssh([READY, {"is_installed": False, "installed": there}, *ANSWERS[2:]])
    brought(agent, supply, said=said)

    assert said[1].startswith("sends Grid")


def test_what_is_no_linux_is_refused(ssh, agent, supply):
    ssh([{**READY, "system": "Darwin"}, {"is_installed": False}])
    with pytest.raises(NotBrought, match="it runs Darwin"):
        brought(agent, supply)


def test_a_machine_of_another_mesh_stays_there(ssh, agent, supply):
    other = {"was": "runs already", **SEEN, "mesh": "f" * 64}
    ssh([READY, {"is_installed": True}, other])
    with pytest.raises(NotBrought, match=r"another mesh, ffffffffffff.*grid leave"):
        brought(agent, supply)

    assert "ticket" not in agent.asked


def test_two_that_do_not_see_each_other_are_told_apart(ssh, agent, supply, monkeypatch):
    monkeypatch.setattr("distributed_grid.bootstrap.bringing.SEEN_S", 0)
    agent.is_seen = False
    ssh(ANSWERS)
    with pytest.raises(NotBrought, match="this machine does not see it"):
        brought(agent, supply)


def test_without_ssh_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotBrought, match="openssh-client"):
        Connection(Target(host="attic"), say=print)
