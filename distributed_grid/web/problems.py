"""What went wrong, as every answer that is not 2xx says it.

Lives here: errors as answers of HTTP. Never here: the errors (`errors`), what of them travels
(`wire.problems`).
"""

from typing import Final

import msgspec
from starlette.responses import Response

from distributed_grid.errors import GridError
from distributed_grid.wire.problems import problem_of, status_of

JSON: Final = "application/json"


def problem_response(error: GridError) -> Response:
    """An error as JSON, with the status that fits it."""
    body = msgspec.json.encode(problem_of(error))
    return Response(body, status_code=status_of(error), media_type=JSON)
