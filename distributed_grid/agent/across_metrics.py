"""Figures of jobs across machines for Prometheus.

Lives here: what is counted, read when somebody asks.
"""

from collections import Counter
from collections.abc import Iterator

from distributed_grid.agent.questions import Questions
from distributed_grid.kernel.node import Node


def across_lines(node: Node, questions: Questions, dropped: int) -> Iterator[str]:
    """Lines of the text format; none, if this node is in no mesh."""
    across = node.across
    if across is None:
        return
    attempts, shelf = node.coordinator.attempts, across.guarding.shelf
    guests = [job for job in node.coordinator.jobs.values() if job.is_guest]
    states = Counter("running" if job.state == "running" else "waiting" for job in guests
                     if not job.has_ended)  # fmt: skip
    yield from _lines("grid_attempts_away", "gauge", "Attempts of own jobs on other nodes", {
        "": len(attempts.away)
    })  # fmt: skip
    yield from _lines("grid_guests", "gauge", "Attempts of other nodes' jobs here", {
        f'state="{state}"': states[state] for state in ("waiting", "running")
    })  # fmt: skip
    whole = sum(1 for _ in shelf.whole())
    yield from _lines("grid_records_held", "gauge", "Records of other nodes' jobs kept here", {
        'kind="unfinished"': len(shelf.unfinished),
        'kind="ended"': whole - len(shelf.unfinished),
    })  # fmt: skip
    yield from _lines("grid_messages_dropped_total", "counter", "Of who said too much at once", {
        "": dropped
    })  # fmt: skip
    yield from _lines("grid_questions", "gauge", "Questions of people under way", {
        'to="others"': len(questions.asking), 'to="here"': questions.answers
    })  # fmt: skip
    asked = {'to="others"': questions.asking.asked, 'to="here"': questions.begun}
    yield from _lines("grid_questions_total", "counter", "Questions of people, so far", asked)
    yield from _lines("grid_questions_refused_total", "counter", "Not answered", {
        "": questions.refused
    })  # fmt: skip
    yield from _lines("grid_questions_junk_total", "counter", "Words that answer nothing", {
        "": questions.junk
    })  # fmt: skip


def _lines(name: str, kind: str, help_text: str, values: dict[str, int]) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
