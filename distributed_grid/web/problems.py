"""What went wrong, as every answer that is not 2xx says it.

Lives here: errors as JSON, with the status that fits. Never here: the errors (`errors`).
"""

from typing import Final

import msgspec
from starlette.responses import Response

from distributed_grid.errors import GridError
from distributed_grid.wire.api import Problem

JSON: Final = "application/json"
STATUS_OF_ERROR: Final = {"Overloaded": 503, "StoreFull": 507}
STATUS_OF_EXIT_CODE: Final = {2: 400, 3: 404, 4: 503, 5: 403}


def problem_response(error: GridError) -> Response:
    """An error as JSON, with the status that fits its exit code."""
    facts = {
        key: value
        for key, value in vars(error).items()
        if key not in ("message", "remedy") and isinstance(value, str | int | list | tuple)
    }
    problem = Problem(
        error=type(error).__name__,
        message=error.message,
        remedy=error.remedy,
        exit_code=error.exit_code,
        facts=facts,
    )
    by_code = STATUS_OF_EXIT_CODE.get(error.exit_code, 500)
    code = STATUS_OF_ERROR.get(type(error).__name__, by_code)
    return Response(msgspec.json.encode(problem), status_code=code, media_type=JSON)
