"""Spoilt bytes for everything that reads bytes of others: python -m tests.words.fuzzing.

Lives here: spoiling, and what each reader must keep to: nothing raised but what is documented, no
case over a fifth of a second, bounded memory. Never here: the readers (`readers`).
Invariant: a case follows from its seed, the reader and its number alone.
"""

import argparse
import random
import resource
import signal
import sys
import tempfile
import time

from tests.words.readers import Reader, readers
from tests.words.stage import Slow, Watch

CASE_S = 0.2  # Of processor time.
RSS_MIB_MAX = 400
BYTES_MAX = 40_000
LONG = 4  # So many things are done to one value at most.
_EDGES = (
    *(b"\x00", b"\xff", b"\x7f", b"\x80", b"\xc0", b"\xc1", b"\xcb\x7f\xf0\0\0\0\0\0\0"),
    *(b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\0" * 7, b"\xcf\x80" + b"\0" * 7, b"\xcc\xff"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc9\0\0\0\1\1"),
    *(b"\x91" * 2_000, b"[" * 2_000, b'{"a":' * 500, b"(" * 200, b"*" * 200, b"**/" * 60),
    *(b"\xa1\xff", b"\xed\xa0\x80", "é\u202e\ufeff".encode(), b"NaN", b"1e999", b"9" * 400),
    *(b"\n", b'"', b"'", b"\\", b"../", b"\0", b"-1", b"[!", b"[]", b"]", b": ", b"- ", b"&a *a"),
)


def spoilt(body: bytes, other: bytes, dice: random.Random) -> bytes:
    """A value as it never was written."""
    data = bytearray(body)
    for _ in range(dice.randrange(1, LONG + 1)):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice((1, 1, 2, 4, 9, 40)))
        match dice.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << dice.randrange(8)
            case 1 if data:
                data[at % len(data)] = dice.randrange(256)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4:
                data[at:end] = dice.choice(_EDGES)
            case 5:
                data[at:at] = dice.choice(_EDGES)
            case 6:
                start = dice.randrange(len(other) + 1)
                data[at:end] = other[start : start + end - at]
            case _:
                del data[at:]
                data += other[min(at, len(other)) :]
    return bytes(data[:BYTES_MAX])


def tried(reader: Reader, body: bytes) -> str:
    """What is wrong with how this is read; empty: nothing."""
    began = time.perf_counter()
    before_s, _ = signal.getitimer(signal.ITIMER_VIRTUAL)
    try:
        reader.read(body)
    except Slow:
        raise
    except reader.raises:
        pass
    except Exception as error:  # noqa: BLE001 - all others are findings.
        return f"{type(error).__name__}: {str(error)[:200]}"
    if time.perf_counter() - began > CASE_S:
        left_s, _ = signal.getitimer(signal.ITIMER_VIRTUAL)
        if before_s - left_s > CASE_S:
            return f"{before_s - left_s:.2f} s"
    return ""


def fuzz(seed: int, cases: int, folder: str) -> list[str]:
    """So many cases, dealt out to all readers; what was found."""
    every = readers(folder)
    parts = sum(reader.share for reader in every)
    found = []
    for reader in every:
        wrong: dict[str, str] = {}
        dice = random.Random(f"{seed}/{reader.name}")
        for body in reader.real:  # What was not spoilt may be refused, too, but well.
            if problem := _watched(reader, body):
                wrong.setdefault(problem.partition(":")[0], f"{problem} of {body[:400]!r}")
        for _ in range(max(20, cases * reader.share // parts)):
            body = spoilt(dice.choice(reader.real), dice.choice(reader.real), dice)
            if problem := _watched(reader, body):
                wrong.setdefault(problem.partition(":")[0], f"{problem} of {body[:400]!r}")
        found += [f"{reader.name}, seed {seed}: {one}" for one in wrong.values()]
    return found


def _watched(reader: Reader, body: bytes) -> str:
    try:
        with Watch(10):
            return tried(reader, body)
    except Slow as error:
        return str(error)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.words.fuzzing", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = fuzz(options.seed, options.cases, folder)
    for one in found:
        print(one)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"seed {options.seed}: {options.cases} cases, {len(found)} findings, {peak_mib} MiB")
    return 1 if found or peak_mib > RSS_MIB_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
