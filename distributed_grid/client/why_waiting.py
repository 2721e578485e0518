"""Why a job has not begun, as one sentence for whoever waits for it.

Lives here: the words, and which of them are news. Never here: the reasons (`kernel.explaining`),
when to look, where it is told.
Invariant: a reason is told once; that its numbers have changed is no other reason.
"""

import time
from typing import Final

from distributed_grid.client import calls
from distributed_grid.errors import counted
from distributed_grid.wire.api import Explanation

BEGIN_S: Final = 3.0  # Most jobs begin at once: whoever waits longer wants to know why;
LOOK_S: Final = 2.0  # from then on, as long as it has not begun.
REMEDIES_MAX: Final = 4
LETTERS_MAX: Final = 600  # Nodes that are not ours have written some of them.


class News:
    """What was not told yet."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def of(self, sentence: str) -> str | None:
        """The sentence, if it was not told before with other numbers."""
        key = "".join(letter for letter in sentence if not letter.isdigit())
        if key in self._told:
            return None
        self._told.add(key)
        return sentence

    def log(self, word: str) -> calls.Call[None]:
        """Log why a job waits, if that is news: on stderr, unless a program says otherwise."""
        view = yield from calls.job(word)
        if view.state == "waiting" and not any(one.state == "running" for one in view.attempts):
            told = self.of(sentence(view.name, (yield from calls.explain(word))))
            if told:
                import logging

                logging.getLogger("distributed_grid").warning("%s", told)


def sentence(name: str, why: Explanation) -> str:
    """The reason, its numbers, and what changes it."""
    parts = [f"job {name} waits: {why.summary}"]
    if why.waits_for:
        parts[0] += f" ({', '.join(why.waits_for)})"
    if why.start_ms:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(why.start_ms / 1_000))
        parts.append(f"not before {moment}")
    for what, wanted, free in why.shortfall:
        parts.append(f"wants {counted(what, wanted)}, {counted(what, free)} free")
    told = "; ".join(parts)
    if why.remedies:
        told += f". What would help: {'; '.join(why.remedies[:REMEDIES_MAX])}"
    plain = "".join(letter if letter.isprintable() else "?" for letter in told)
    return plain if len(plain) <= LETTERS_MAX else f"{plain[:LETTERS_MAX]} …"
