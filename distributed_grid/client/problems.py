"""A problem the agent tells becomes the error it was there.

Lives here: from the wire's `Problem` to our error tree. Never here: printing.
"""

from typing import Any

import msgspec

from distributed_grid import errors
from distributed_grid.client.exchange import BadAnswer, Response
from distributed_grid.errors import GridError
from distributed_grid.wire.api import Problem


def problem_of(response: Response) -> GridError:
    """The error in an answer that is not 2xx."""
    try:
        problem = msgspec.json.decode(response.body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BadAnswer(f"status {response.status} without a problem that can be read")
    return error_of(problem)


def error_of(problem: Problem) -> GridError:
    """The error of this name, its facts as fields; a plain GridError if the name is not ours."""
    kind = getattr(errors, problem.error, GridError)
    if not (isinstance(kind, type) and issubclass(kind, GridError)):
        kind = GridError
    # Not by its constructor: the sentence is made already, by the version that raised it.
    error = kind.__new__(kind)
    GridError.__init__(error, problem.message, remedy=problem.remedy)
    facts = {name: _tupled(value) for name, value in problem.facts.items() if name.isidentifier()}
    vars(error).update({**facts, "message": problem.message, "remedy": problem.remedy})
    if kind is GridError:
        vars(error).update(exit_code=problem.exit_code, error=problem.error)
    return error


def _tupled(value: Any) -> Any:
    # JSON has lists where our errors have tuples.
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
