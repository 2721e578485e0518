"""A problem the agent tells becomes the error it was there.

Lives here: from an answer to our error tree. Never here: the way back and forth (`wire.problems`,
loaded when there is a problem), printing.
"""

import msgspec

from distributed_grid.client.exchange import BadAnswer, Response
from distributed_grid.errors import GridError
from distributed_grid.wire.api import Problem


def problem_of(response: Response) -> GridError:
    """The error in an answer that is not 2xx."""
    from distributed_grid.wire.problems import error_of

    try:
        problem = msgspec.json.decode(response.body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BadAnswer(f"status {response.status} without a problem that can be read")
    return error_of(problem)
