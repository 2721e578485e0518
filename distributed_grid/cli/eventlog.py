"""Events of the kernel as log lines on stderr. The only file of the CLI that knows structlog.

Lives here: how events are written. Never here: what is told (`kernel.placement.events`).
"""

import logging
import sys
from collections.abc import Iterable
from typing import Any

import structlog

from distributed_grid.kernel.placement.events import PlacementEvent


def write_events(found: Iterable[PlacementEvent], *, level: str, as_json: bool) -> None:
    """Write what this level shows: details at debug, the rest at info."""
    log = _logger(level, as_json=as_json)
    for event in found:
        write = log.debug if event.is_detail else log.info
        write(event.name, **event.fields)


def _logger(level: str, *, as_json: bool) -> Any:
    renderer: Any = (
        structlog.processors.JSONRenderer(sort_keys=True)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    )
