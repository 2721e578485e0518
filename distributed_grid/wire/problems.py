"""Errors as they travel, and back: the error that one process raised is raised by another.

Lives here: from our error tree to `Problem` and back, and the status that fits. Never here: the
tree (`errors`), printing.
"""

from typing import Any, Final

from distributed_grid import errors
from distributed_grid.errors import GridError
from distributed_grid.wire.api import Problem

OK: Final = 200
STATUS_OF_ERROR: Final = {"Overloaded": 503, "StoreFull": 507, "StoreReadOnly": 507}
STATUS_OF_EXIT_CODE: Final = {2: 400, 3: 404, 4: 503, 5: 403}


def status_of(error: GridError) -> int:
    """The status of HTTP that fits an error."""
    by_code = STATUS_OF_EXIT_CODE.get(error.exit_code, 500)
    return STATUS_OF_ERROR.get(type(error).__name__, by_code)


def problem_of(error: GridError) -> Problem:
    """An error with its facts."""
    facts = {
        key: value
        for key, value in vars(error).items()
        if key not in ("message", "remedy") and isinstance(value, str | int | list | tuple)
    }
    return Problem(
        error=type(error).__name__,
        message=error.message,
        remedy=error.remedy,
        exit_code=error.exit_code,
        facts=facts,
    )


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
