import json
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from benchmarks.plot import (
    Bars,
    Lines,
    Series,
    bars_svg,
    cluster_panels,
    jobs_panels,
    lines_svg,
    mesh_panels,
)
from tests.conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"
FOUND = {
    "grid": {"raw_per_s": 2_400, "array_per_s": 1_200, "separate_per_s": 300, "map_s": 0.23,
             "map_calls": 5_000},
    "peers": {
        "ray": {"array_per_s": 600, "separate_per_s": 570, "map_s": 4.7},
        "dask": {"error": "not installed"},
        "hyperqueue": {"array_per_s": 330, "separate_per_s": 225, "map_s": None},
    },
}  # fmt: skip

MESH = {
    "benchmark": "mesh",
    "real": {"killed": {"seconds": {"p50": 2.6}}, "stopped": {"seconds": {"p50": 2.5}}},
    "peers": {
        "dask": {"killed_s": 0.08, "stopped_s": None, "bound_s": 120},
        "ray": {"error": "not installed"},
    },
    "simulated": {
        "kernels": [{"nodes": 1_000, "rounds": {"mean": 4.2}}],
        "model": {"nodes": 10_000, "rounds": {"mean": 5.2}},
    },
}

CLUSTER = {
    "benchmark": "cluster",
    "grid": {"nodes": 4, "array_per_s": 900, "replacing": {"from_kill_s": {"p50": 2.9}}},
    "peers": {
        "dask": {"array_per_s": 400, "replacing": {"error": ["no"]}},
        "ray": {"array_per_s": 700, "replacing": {"from_kill_s": {"p50": 13}}},
        "hyperqueue": {"error": "not installed"},
    },
}


def texts(root: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def spans(root: ET.Element) -> list[tuple[float, float, float, str]]:
    """Where each text stands, by a generous guess of its width: left, right, baseline, words."""
    found = []
    for element in root.iter(f"{SVG}text"):
        words, x = "".join(element.itertext()), float(element.get("x"))
        wide = len(words) * float(element.get("font-size")) * 0.6
        left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
        found.append((left, left + wide, float(element.get("y")), words))
    return found


def covered(root: ET.Element) -> list[tuple[str, str]]:
    boxes = spans(root)
    return [
        (one[3], two[3])
        for index, one in enumerate(boxes)
        for two in boxes[index + 1 :]
        if one[0] < two[1] and two[0] < one[1] and abs(one[2] - two[2]) < 11
    ]


def day(names: list[str]) -> Lines:
    series = [
        Series(name, [(hour, 30 + hour % 7 + number) for hour in range(25)])
        for number, name in enumerate(names)
    ]
    return Lines("Shares over a day", "hours", "share of the cores, percent", series)


DRAWN = {
    "jobs": bars_svg("Jobs", jobs_panels(FOUND)),
    "mesh": bars_svg("Mesh", mesh_panels(MESH)),
    "cluster": bars_svg("Cluster", cluster_panels(CLUSTER)),
    "day": lines_svg(day(["physics", "biology", "guests", "nobody"])),
    "one point": lines_svg(Lines("One", "s", "jobs/s", [Series("a", [(3, 0)])])),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_svg_whose_words_are_inside_and_cover_nothing(name):
    root = ET.fromstring(DRAWN[name])
    _, _, width, height = map(float, root.get("viewBox").split())

    assert root.find(f"{SVG}title").text == texts(root)[0]
    assert [
        box for box in spans(root) if box[0] < 0 or box[1] > width or not 0 < box[2] < height
    ] == []
    assert covered(root) == []


def test_a_bar_is_as_long_as_its_value_and_ours_stands_out():
    root = ET.fromstring(
        bars_svg("T", [Bars("P", "s", [("Grid", 10), ("Other", 40), ("None", 0)])])
    )
    bars = list(root.iter(f"{SVG}rect"))
    one, four, none = (float(bar.get("width")) for bar in bars)

    assert four == pytest.approx(4 * one, abs=0.2)
    assert none == 0
    assert bars[0].get("fill") != bars[1].get("fill") == bars[2].get("fill")


def test_names_and_units_are_there_and_cannot_break_the_picture():
    chart = lines_svg(day(["<a & b>", '"c"']))

    assert {"<a & b>", '"c"', "hours", "share of the cores, percent"} <= set(
        texts(ET.fromstring(chart))
    )


def test_a_higher_value_is_drawn_higher():
    [line] = ET.fromstring(
        lines_svg(Lines("T", "x", "y", [Series("a", [(0, 1), (1, 5), (2, 3)])]))
    ).iter(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]

    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[1][1] < points[2][1] < points[0][1]


def test_who_failed_or_cannot_do_it_has_no_row():
    array, separate, mapped = jobs_panels(FOUND)

    assert [name for name, _ in array.rows] == ["raw posix_spawn", "Grid", "Ray", "HyperQueue"]
    assert [name for name, _ in separate.rows] == ["Grid", "Ray", "HyperQueue"]
    assert [name for name, _ in mapped.rows] == ["Grid", "Ray"]


def test_the_command_draws_what_the_benchmark_printed(tmp_path):
    (tmp_path / "jobs.json").write_text(json.dumps(FOUND))
    out = tmp_path / "plots" / "jobs.svg"
    subprocess.run(
        [sys.executable, "-m", "benchmarks.plot", tmp_path / "jobs.json", "--out", out],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip

    assert "1,200" in texts(ET.parse(out).getroot())


def test_a_peer_that_was_not_waited_for_is_shown_with_its_bound():
    killed, stopped, rounds = mesh_panels(MESH)

    assert killed.rows == [("Grid", 2.6), ("Dask", 0.08)]
    assert stopped.rows == [("Grid", 2.5), ("Dask, more than", 120)]
    assert [name for name, _ in rounds.rows] == ["1,000 nodes", "10,000 modelled"]


def test_who_failed_or_moves_no_work_has_no_bar():
    rates, again = cluster_panels(CLUSTER)

    assert rates.rows == [("Grid", 900), ("Dask", 400), ("Ray", 700)]
    assert again.rows == [("Grid", 2.9), ("Ray", 13)]
