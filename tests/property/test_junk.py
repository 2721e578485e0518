"""Can any file at all make us do anything but answer, or refuse in one line?"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributed_grid.config import documents
from distributed_grid.config.fleet import fleet_of
from distributed_grid.config.jobs import jobs_of
from distributed_grid.config.yaml_tree import build_tree
from distributed_grid.errors import GridError
from distributed_grid.model import bytesize, duration, ids, milli
from distributed_grid.model.resources import custom_kind

FLEET = """- id: 5f0c000000000000000000000000000000000000000000000000000000000001
  name: attic
  class: workstation
  labels: {zone: home, ssd: "true"}
  capabilities: {cpu_cores: 16, memory: 64GiB, gpus: [{model: RTX4090, memory: 24GiB, count: 1}]}
  capacity: {cpu_cores: 9.5, memory: 40GiB, gpus: [{model: RTX4090, count: 1}]}
  power: {on_battery: false, battery_percent: 100, temperature_c: 55, watts_idle: 60}
  network: {bandwidth_mbps: 1000, latency_ms: 4, reachability: direct}
  price_per_hour: 0.0
"""
FLEET_JSON = json.dumps(build_tree("fleet", FLEET, depth_max=64))
SPICE = st.sampled_from(
    [
        *(
            "&a ",
            "*a",
            "!!int ",
            "---\n",
            "{",
            "}",
            "[",
            "]",
            ":",
            "- ",
            "? ",
            '"',
            "'",
            "\\",
            "\n",
        ),
        *("\t", "#", "%", "|", ">", "\x00", "\x1b[31m", "\u202e", "\ud7ff", "-1", ".nan", "1e999"),
        *("9" * 50, "null", "~", "=", "<<", "@", "`", ",", "\ufeff", "\u2028", "é", "0x", "_"),
    ]
)


@st.composite
def mutated(draw, text):
    """A valid document with a few pieces cut out, doubled or spiced."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = draw(st.integers(at, min(at + 40, len(text))))
        kind = draw(st.sampled_from(["cut", "double", "spice"]))
        middle = {"cut": "", "double": text[at:end] * 2}.get(kind) or draw(SPICE)
        text = text[:at] + middle + text[end:]
    return text


KEYS = [
    *("id", "name", "capabilities", "capacity", "gpus", "model", "count", "labels", "cpus"),
    *("power", "network", "custom", "require", "prefer", "class", "running", "memory"),
]
MORE = settings(max_examples=max(400, settings().max_examples))  # They are cheap.
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["16GiB", "0.5", "any", "a" * 64, "datacenter", "1e9999999", "sNaN"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=4) | st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def refused_in_one_line(call, *arguments):
    """Run it; anything but a value or one printable line of ours fails the test."""
    try:
        return call(*arguments)
    except GridError as error:
        line = str(error)
    assert line.isprintable()
    assert len(line) < 1_000
    return None


def read(file, data):
    """What reading a file does, after its bytes were fetched."""
    text = documents._text(file, data)
    if documents._is_json(file, data):
        return documents._json(file, text)
    return build_tree(file, text, depth_max=documents.DEPTH_MAX)


@pytest.mark.parametrize("name", ["junk.yaml", "junk.json", "junk"])
@MORE
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | SPICE.map(str.encode))
def test_any_bytes_are_a_document_or_one_line(name, data):
    document = refused_in_one_line(read, name, data)

    refused_in_one_line(fleet_of, name, document)
    refused_in_one_line(jobs_of, name, document)


@pytest.mark.parametrize(("name", "text"), [("a.yaml", FLEET), ("a.json", FLEET_JSON)])
@MORE
@given(data=st.data())
def test_a_damaged_fleet_is_a_fleet_or_one_line(name, text, data):
    document = refused_in_one_line(read, name, data.draw(mutated(text)).encode())

    if document is not None:
        refused_in_one_line(fleet_of, name, document)


@MORE
@given(JSON_VALUES)
def test_any_document_is_jobs_and_nodes_or_one_line(document):
    refused_in_one_line(fleet_of, "f", [document])
    refused_in_one_line(jobs_of, "f", document)
    refused_in_one_line(jobs_of, "f", {"name": "x", "require": document, "gpus": document})
    least = {"id": "a" * 64, "name": "n", "capabilities": document, "capacity": document}
    refused_in_one_line(fleet_of, "f", [least])


@MORE
@given(JSON_VALUES)
def test_json_that_is_json_is_read_as_json_reads_it(document):
    try:
        text = json.dumps(document, allow_nan=False)
        text.encode()
    except ValueError:
        return  # NaN, infinities and lone surrogates are no JSON.

    assert read("a.json", text.encode()) == json.loads(text)


@MORE
@given(JSON_VALUES | st.text(max_size=50) | st.from_regex(r"[-+]?[0-9.eE_ ]{1,45}[A-Za-z]{0,4}"))
def test_any_word_is_an_amount_an_id_a_kind_or_one_line(word):
    for parse in (milli.parse, bytesize.parse, duration.parse):
        amount = refused_in_one_line(parse, word)
        assert amount is None or (isinstance(amount, int) and amount >= 0)
    for parse in (ids.node_id, custom_kind):
        refused_in_one_line(parse, word)
