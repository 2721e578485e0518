"""What the keeper would say, if it greeted now.

Lives here: what it was told and has reported. Never here: the line to it (`edges.runner`).
Invariant: as the keeper itself keeps it: reports until they are acknowledged, attempts until their
last report.
"""

import msgspec

from distributed_grid.edges.runner import Report
from distributed_grid.wire.keeper import (
    Acknowledge,
    Deadline,
    Ended,
    Hello,
    Resume,
    Run,
    Suspend,
    ToKeeper,
)


class KeeperBook:
    """One keeper, as its agent knows it."""

    def __init__(self) -> None:
        self.reports: list[Report] = []  # Those that were not acknowledged.
        self._running: dict[str, None] = {}
        self._queued: dict[str, None] = {}
        self._suspended: dict[str, None] = {}
        self._began: dict[str, int] = {}
        self._deadlines: dict[str, int] = {}

    def greeted(self, hello: Hello) -> None:
        """The keeper's own greeting."""
        self._running = dict.fromkeys(hello.running)
        self._queued = dict.fromkeys(hello.queued)
        self._suspended = dict.fromkeys(hello.suspended)
        self._began, self._deadlines = dict(hello.began), dict(hello.deadlines)

    def told(self, message: ToKeeper) -> None:
        """It was told something."""
        match message:
            case Run(attempt=attempt):
                self._running[attempt] = self._queued[attempt] = None
                if message.until_boot_us:
                    self._deadlines[attempt] = message.until_boot_us
            case Suspend(attempt=attempt):
                self._suspended[attempt] = None
            case Resume(attempt=attempt):
                self._suspended.pop(attempt, None)
            case Deadline(attempt=attempt) if attempt in self._running:
                until_us = max(message.until_boot_us, self._deadlines.get(attempt, 0))
                self._deadlines[attempt] = until_us
            case Acknowledge(upto=upto):
                self.reports = [report for report in self.reports if report.number > upto]
            case _:
                pass  # What follows from the others it reports.

    def heard(self, reports: tuple[Report, ...]) -> None:
        """It has said something."""
        self.reports += reports
        for report in reports:
            self._queued.pop(report.attempt, None)
            if not isinstance(report, Ended):
                self._began.setdefault(report.attempt, report.at_ms)
            elif report.is_last:
                self._running.pop(report.attempt, None)
                for table in (self._suspended, self._began, self._deadlines):
                    table.pop(report.attempt, None)

    def hello(self, greeting: Hello) -> Hello:
        """The greeting, as it would be now."""
        return msgspec.structs.replace(
            greeting,
            running=tuple(self._running),
            queued=tuple(self._queued),
            suspended=tuple(self._suspended),
            began=dict(self._began),
            deadlines=dict(self._deadlines),
            unacknowledged=len(self.reports),
        )
