"""Where a job may run, how it is kept and what travels with it, from the words of people."""

import pytest

from distributed_grid.client.placing import avoided, label_pair
from distributed_grid.client.shipping import shipped
from distributed_grid.client.specification import specification
from distributed_grid.errors import BadValue, UnknownName
from distributed_grid.model.job import GANG_MAX, NOWHERE, OUTPUTS_MAX, Where


def spec(**wishes):
    return specification(["x"], wishes)


def test_every_wish_about_places_reaches_the_specification():
    made = spec(
        node=["gpu1", "AB" * 32], on_class="laptop", labels={"rack": "r7", "a": "b"},
        avoid=("attic", "class:edge", "zone=z1", "job:train"), policy="Spread", locality="zone",
        max_latency="20ms", no_battery=True, at_most_once=True, voters=5, copies=2, gang=4,
        outputs=["results/*.csv", "model.bin", "model.bin"], overwrite=True,
    )  # fmt: skip

    assert made.require == Where(
        nodes=("ab" * 32, "gpu1"),
        classes=("laptop",),
        labels=(("a", "b"), ("rack", "r7")),
        latency_us_max=20_000,
    )
    assert made.avoid == Where(
        nodes=("attic",), classes=("edge",), labels=(("zone", "z1"),), jobs=("train",)
    )
    assert (made.policy, made.locality, made.battery_safe) == ("Spread", "zone", False)
    assert (made.at_most_once, made.voters, made.copies, made.gang) == (True, 5, 2, 4)
    assert (made.outputs, made.overwrite) == (("results/*.csv", "model.bin"), True)


def test_two_values_of_one_label_are_both_avoided():
    words = ["room=cellar", "room=attic", "room=attic"]

    assert avoided(words).labels == (("room", "attic"), ("room", "cellar"))


def test_without_such_a_wish_a_job_may_run_anywhere():
    made = spec()

    assert (made.require, made.avoid, made.policy, made.locality) == (NOWHERE, NOWHERE, "", "")
    assert (made.at_most_once, made.voters, made.copies) == (False, 3, 0)
    assert (made.gang, made.ship) == (1, None)
    assert (made.battery_safe, made.outputs, made.python_env) == (True, (), "")


def test_one_word_is_a_list_of_one():
    assert spec(node="gpu1").require.nodes == ("gpu1",)
    assert spec(avoid="gpu1").avoid.nodes == ("gpu1",)
    assert spec(outputs="*.csv").outputs == ("*.csv",)


@pytest.mark.parametrize("word", [".", "./", "././/."])
def test_the_directory_itself_as_an_output_is_all_that_is_in_it(word):
    assert spec(outputs=[word, "**", "./a"]).outputs == ("**", "./a")


def test_nodes_that_are_insisted_on_stay_beside_other_wishes():
    made = spec(preferred_nodes=["gpu1"], strict_nodes=True, on_class="Data-Center")

    assert made.require == Where(nodes=("gpu1",), classes=("datacenter",))
    assert spec(preferred_nodes=["gpu1"], strict_nodes=True, gang=2).require.nodes == ("gpu1",)
    with pytest.raises(BadValue, match="not both"):
        spec(preferred_nodes=["gpu1"], strict_nodes=True, node="gpu2")


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"node": ""}, "node"),
        ({"node": 5}, "node"),
        ({"node": [5]}, "node"),
        ({"labels": ["a=b"]}, "labels"),
        ({"labels": {"a": 5}}, "label"),
        ({"labels": {"a\n": "b"}}, "label"),
        ({"avoid": "=b"}, "label"),
        ({"avoid": "job:"}, "avoid"),
        ({"policy": "x" * 65}, "policy"),
        ({"policy": None}, "policy"),
        ({"max_latency": "0"}, "max_latency"),
        ({"max_latency": "2h"}, "max_latency"),
        ({"no_battery": 1}, "no_battery"),
        ({"at_most_once": "yes"}, "at_most_once"),
        ({"at_most_once": True, "voters": 4}, "voters"),
        ({"at_most_once": True, "voters": True}, "voters"),
        ({"voters": 5}, "voters"),
        ({"copies": 5}, "copies"),
        ({"copies": -1}, "copies"),
        ({"copies": True}, "copies"),
        ({"gang": 0}, "gang"),
        ({"gang": GANG_MAX + 1}, "gang"),
        ({"gang": 2, "array": "0-9"}, "gang"),
        ({"outputs": "/etc/passwd"}, "outputs"),
        ({"outputs": "../secret"}, "outputs"),
        ({"outputs": "a/../b"}, "outputs"),
        ({"outputs": "a\0b"}, "outputs"),
        ({"outputs": ""}, "outputs"),
        ({"outputs": "x" * 5_000}, "outputs"),
        ({"outputs": [str(number) for number in range(OUTPUTS_MAX + 1)]}, "outputs"),
        ({"overwrite": None}, "overwrite"),
    ],
)
def test_what_means_nothing_is_refused_at_its_wish(wishes, field):
    with pytest.raises(BadValue) as caught:
        spec(**wishes)

    assert caught.value.field == field


def test_what_is_only_known_by_name_says_which_there_are():
    with pytest.raises(UnknownName, match="datacenter, workstation, laptop, edge"):
        spec(on_class="phone")
    with pytest.raises(UnknownName, match="data, rack, zone, region"):
        spec(locality="planet")
    with pytest.raises(UnknownName):
        spec(locality=5)
    with pytest.raises(UnknownName):
        avoided(["class:phone"])


def test_a_label_is_written_with_an_equals_sign():
    assert label_pair("rack=r7=x") == ("rack", "r7=x")
    with pytest.raises(BadValue):
        label_pair("rack")


# --- Files ----------------------------------------------------------------------------------------


def asked_for(**wishes):
    return next(shipped(spec(cwd="/src"), wishes))


def test_files_are_named_from_the_root_for_the_agent_is_in_another_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = asked_for(ship=["data", "/etc/hosts"], python_env="uv.lock").body

    assert b'"directory":"/src"' in body
    assert f'"{tmp_path}/data","/etc/hosts"'.encode() in body
    assert f'"python_env":"{tmp_path}/uv.lock"'.encode() in body
    assert f'"paths":["{tmp_path}/data"]'.encode() in asked_for(ship=tmp_path / "data").body


def test_without_files_nothing_is_asked():
    made = spec()
    with pytest.raises(StopIteration) as done:
        next(shipped(made, {}))

    assert done.value.value is made


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"ship": 5}, "ship"),
        ({"ship": [5]}, "ship"),
        ({"ship": ["a\0b"]}, "ship"),
        ({"ship": ["a"] * 1_001}, "ship"),
        ({"python_env": b"x"}, "python_env"),
        ({"python_env": 5}, "python_env"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(wishes, field):
    with pytest.raises(BadValue) as caught:
        asked_for(**wishes)

    assert caught.value.field == field
