"""Words for people: when something was, how long it took, what it used.

Lives here: times, spans, amounts as one line of text. Never here: tables (`render`).
"""

import time
from collections.abc import Iterable

import click

from distributed_grid.model import bytesize, duration, milli
from distributed_grid.wire.api import JobView


def moment(at_ms: int | None) -> str:
    """A moment in local time; a dash for none."""
    if at_ms is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1_000))


def span(from_ms: int | None, to_ms: int | None) -> str:
    """How long it took; a dash if it has not begun, or the clock went back."""
    if from_ms is None or to_ms is None or to_ms < from_ms:
        return "-"
    took_ms = to_ms - from_ms
    return duration.text(took_ms if took_ms < 10_000 else took_ms // 1_000 * 1_000)


def now_ms() -> int:
    """This moment."""
    return time.time_ns() // 1_000_000


def state(job: JobView) -> str:
    """In a word: what stands still for the sake of a machine's owner does not run."""
    running = [one for one in job.attempts if one.state == "running"]
    return "suspended" if running and all(one.suspended for one in running) else job.state


def counted(job: JobView) -> str:
    """The same of an array, with how far it is: `failed 191/200, 9 failed`."""
    if (array := job.array) is None:
        return state(job)
    told = [f"{state(job)} {array.succeeded}/{array.total}"]
    told += [f"{array.failed} failed"] if array.failed else []
    told += [f"{array.cancelled} cancelled"] if array.cancelled else []
    return ", ".join(told)


def ran_for(job: JobView) -> str:
    """How long a job runs or ran."""
    end_ms = now_ms() if job.state == "running" else job.ended_ms
    return span(job.started_ms, end_ms)


def wants(job: JobView) -> str:
    """What a job asked for: `2 cores, 4 GiB, 1 GPU`."""
    parts = [f"{milli.text(job.cpu_milli)} core{'' if job.cpu_milli == milli.WHOLE else 's'}"]
    parts += [bytesize.text(job.memory_bytes)] if job.memory_bytes else []
    if job.gpu_milli:
        parts.append(
            f"{milli.text(job.gpu_milli)} GPU{'' if job.gpu_milli <= milli.WHOLE else 's'}"
        )
    return ", ".join(parts)


def amount(what: str, value: int) -> str:
    """A number of the wire in the unit people use: `cpu_milli` 1500 is 1.5."""
    name = what.partition(".")[0]
    if name.endswith("_bytes"):
        return bytesize.text(value)
    return milli.text(value) if name.endswith("_milli") or name == "custom" else str(value)


def resource(what: str) -> str:
    """What the wire calls `cpu_milli`, as people say it."""
    names = {"cpu_milli": "cores", "gpu_milli": "GPUs", "memory_bytes": "memory"}
    plain = names.get(what, what.removeprefix("custom."))
    return plain.removesuffix("_bytes").removesuffix("_milli")


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print labels and values, aligned; empty values are left out."""
    shown = [(label, value) for label, value in rows if value not in ("", "-")]
    width = max((len(label) for label, _ in shown), default=0)
    for label, value in shown:
        click.echo(f"{click.style(label.ljust(width), dim=True)}  {value}")


def printable(told: str) -> str:
    """What another machine says of itself, safe on a terminal: what does not print is escaped."""
    if told.isprintable():
        return told
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in told)
