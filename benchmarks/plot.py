"""Figures as pictures: SVG from plain numbers, without a library.

`python -m benchmarks.plot FILE` reads the JSON of `benchmarks.jobs` or `benchmarks.mesh` and writes
docs/plots/jobs.svg or mesh.svg. `bars_svg` draws a row per system, `lines_svg` series over time.
Every colour keeps its distance from white and from black, and the ground stays clear: both kinds of
page do.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).parents[1]
WIDTH = 720
TEXT = "#7d7d7d"  # 4:1 against white and 5:1 against black: enough to read on either.
RULE = "#808080"
COLOURS = ("#2f7fd0", "#d9772b", "#3c9a5f", "#b054b0", "#8a8f2a", "#c94f5d", "#2f97a0", "#8c6d4f")
OTHERS = "#8a94a0"  # Bars of those we are compared with.
TICKS = 5  # About as many: more would touch each other.


class Bars(NamedTuple):
    """One panel: a row for each system, the value written beside its bar."""

    title: str
    axis: str  # What is measured, and its unit.
    rows: Sequence[tuple[str, float]]
    ours: str = "Grid"  # The row that stands out.


class Series(NamedTuple):
    """One line, from left to right."""

    name: str
    points: Sequence[tuple[float, float]]


class Lines(NamedTuple):
    """A panel of lines over the same axis."""

    title: str
    x_axis: str
    y_axis: str
    series: Sequence[Series]


def bars_svg(title: str, panels: Sequence[Bars]) -> str:
    """Panels of bars, one below the other."""
    body: list[str] = []
    top = 40
    for panel in panels:
        body += _bars(panel, top)
        top += 66 + 24 * len(panel.rows)
    return _svg(title, body, height=top)


def lines_svg(chart: Lines) -> str:
    """Lines with their names on the right, where they end."""
    left, right, top, bottom = 64, WIDTH - 150, 48, 330
    points = [point for series in chart.series for point in series.points]
    xs, ys = _ticks(x for x, _ in points), _ticks([0, *(y for _, y in points)])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (right - left) * (x - xs[0]) / (xs[-1] - xs[0]),
            bottom - (bottom - top) * (y - ys[0]) / (ys[-1] - ys[0]),
        )

    body = []
    for tick in ys:
        body.append(_rule(left, at(xs[0], tick)[1], right, at(xs[0], tick)[1]))
        body.append(_text(left - 8, at(xs[0], tick)[1] + 4, _number(tick), anchor="end"))
    for tick in xs:
        body.append(_rule(at(tick, ys[0])[0], top, at(tick, ys[0])[0], bottom))
        body.append(_text(at(tick, ys[0])[0], bottom + 18, _number(tick), anchor="middle"))
    body.append(_text((left + right) / 2, bottom + 38, chart.x_axis, anchor="middle"))
    body.append(_text(left - 8, top - 12, chart.y_axis))
    ends = _apart([at(*series.points[-1])[1] for series in chart.series])
    for number, (series, end) in enumerate(zip(chart.series, ends, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in series.points))
        body.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body.append(_text(right + 8, end + 4, series.name, fill=colour))
    return _svg(chart.title, body, height=bottom + 52)


def jobs_panels(found: dict[str, Any]) -> list[Bars]:
    """What `benchmarks.jobs` found, as panels; who failed or has no such thing has no row."""
    names = {"ray": "Ray", "dask": "Dask", "hyperqueue": "HyperQueue"}
    systems = {"Grid": found["grid"]}
    systems |= {names[name]: row for name, row in found["peers"].items() if name in names}

    def rows(key: str) -> list[tuple[str, float]]:
        return [(name, row[key]) for name, row in systems.items() if row.get(key)]

    pipelined = found["grid"].get("pipelined_per_s")
    separate = [("Grid, pipelined", pipelined)] if pipelined else []
    raw = ("raw posix_spawn", found["grid"]["raw_per_s"])
    calls = f"{found['grid']['map_calls']:,}"
    return [
        Bars("One array of /bin/true", "jobs a second, more is better",
             [raw, *rows("array_per_s")]),
        Bars("Separate submissions over one connection", "jobs a second, more is better",
             [*separate, *rows("separate_per_s")]),
        Bars(f"map of {calls} trivial Python calls", "seconds, less is better", rows("map_s")),
    ]  # fmt: skip


def mesh_panels(found: dict[str, Any]) -> list[Bars]:
    """What `benchmarks.mesh` found; a peer that was not waited for has its bound as a bar."""
    real, world = found["real"], found["simulated"]
    names = {"dask": "Dask", "ray": "Ray"}

    def rows(kind: str) -> list[tuple[str, float]]:
        ours = [("Grid", real[kind]["seconds"]["p50"])]
        for name, row in found["peers"].items():
            if "error" not in row:
                seconds = row[f"{kind}_s"]
                late = names[name] if seconds is not None else f"{names[name]}, more than"
                ours.append((late, row["bound_s"] if seconds is None else seconds))
        return ours

    sizes = [(f"{one['nodes']:,} nodes", one["rounds"]["mean"]) for one in world["kernels"]]
    model = world["model"]
    sizes.append((f"{model['nodes']:,} modelled", model["rounds"]["mean"]))
    return [
        Bars("A node killed with -9 is known to be dead", "seconds, less is better",
             rows("killed")),
        Bars("A node that hangs is known to be dead", "seconds, less is better", rows("stopped")),
        Bars("News until everyone has it", "rounds of 200 ms", sizes),
    ]  # fmt: skip


def cluster_panels(found: dict[str, Any]) -> list[Bars]:
    """What `benchmarks.cluster` found; who failed or does not move work has no row."""
    names = {"ray": "Ray", "dask": "Dask", "hyperqueue": "HyperQueue"}
    systems = {"Grid": found["grid"]}
    systems |= {names[name]: row for name, row in found["peers"].items()}
    rates = [(name, row["array_per_s"]) for name, row in systems.items() if "array_per_s" in row]
    again = [
        (name, row["replacing"]["from_kill_s"]["p50"])
        for name, row in systems.items()
        if "from_kill_s" in row.get("replacing", {})
    ]
    nodes = found["grid"]["nodes"]
    return [
        Bars(f"One array of /bin/true over {nodes} nodes", "jobs a second, more is better", rates),
        Bars("A node is killed with -9: its job runs again", "seconds, less is better", again),
    ]


def _bars(panel: Bars, top: float) -> list[str]:
    left, right = 150, WIDTH - 70
    ticks = _ticks([0, *(value for _, value in panel.rows)])
    scale = (right - left) / ticks[-1]
    end = top + 14 + 24 * len(panel.rows)
    body = [_text(16, top, panel.title, weight="bold")]
    for tick in ticks:
        body.append(_rule(left + tick * scale, top + 10, left + tick * scale, end))
        body.append(_text(left + tick * scale, end + 14, _number(tick), anchor="middle", size=11))
    body.append(_text(right, top, panel.axis, anchor="end", size=11))
    for number, (name, value) in enumerate(panel.rows):
        y = top + 14 + 24 * number
        colour = COLOURS[0] if name == panel.ours else OTHERS
        body.append(_text(left - 8, y + 13, name, anchor="end"))
        body.append(
            f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="18" fill="{colour}"/>'
        )
        body.append(_text(left + value * scale + 6, y + 13, _number(value)))
    return body


def _svg(title: str, body: Iterable[str], *, height: float) -> str:
    name = escape(title)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img"\n'
        f'  width="{WIDTH}" height="{height:g}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [
            head,
            f"<title>{name}</title>",
            _text(16, 20, title, size=15, weight="bold"),
            *body,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12,
          weight: str = "normal", fill: str = TEXT) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}" stroke="{RULE}" stroke-opacity="0.3"/>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.4g}"


def _ticks(values: Iterable[float]) -> list[float]:
    """Round numbers from at or below the least value to at or above the greatest."""
    found = list(values)
    low, high = min(found), max(found)
    rough = ((high - low) or abs(high) or 1) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1, 2, 5, 10) if nice * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 12) for number in range(first, max(last, first + 1) + 1)]


def _apart(places: list[float]) -> list[float]:
    """The same places, pushed down where two names would cover each other."""
    moved = list(places)
    above = -math.inf
    for index in sorted(range(len(moved)), key=moved.__getitem__):
        moved[index] = above = max(moved[index], above + 15)
    return moved


PICTURES: Final[dict[str, tuple[str, Callable[[dict[str, Any]], list[Bars]]]]] = {
    "jobs": ("Jobs on one machine with two cores", jobs_panels),
    "mesh": ("A mesh on one machine with two cores", mesh_panels),
    "cluster": ("Four nodes on one machine with two cores", cluster_panels),
}


def main() -> None:
    """Draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=Path, help="the JSON of a benchmark")
    parser.add_argument("--out", type=Path, help="else into docs/plots")
    options = parser.parse_args()
    found = json.loads(options.file.read_text())
    name = found.get("benchmark", "jobs")
    title, panels = PICTURES[name]
    out = options.out or ROOT / "docs" / "plots" / f"{name}.svg"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(bars_svg(title, panels(found)))
    print(out)


if __name__ == "__main__":
    main()
