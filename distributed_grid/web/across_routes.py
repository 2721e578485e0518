"""The routes of jobs and nodes across the mesh: decode, check, call.

Lives here: their handlers. Never here: the table (`wire.across_api`), what the operations do
(`agent`).
"""

from typing import Any, Final

from starlette.requests import Request

from distributed_grid.agent import Operations
from distributed_grid.errors import BadValue
from distributed_grid.model.ids import job_id
from distributed_grid.web.application import Handler
from distributed_grid.web.bodies import body
from distributed_grid.web.mesh_routes import word
from distributed_grid.web.queries import WAIT_MS_MAX, index, number
from distributed_grid.wire.across_api import BringOutputs, Pack
from distributed_grid.wire.api import JOBS_MAX


async def _requeue(operations: Operations, request: Request) -> Any:
    return await operations.across.requeue(request.path_params["job"])


async def _rerun(operations: Operations, request: Request) -> Any:
    only_failed = bool(number(request, "failed", default=0, most=1))
    new = job_id(request.query_params.get("id", ""))
    job = request.path_params["job"]
    return await operations.across.rerun(job, new=new, only_failed=only_failed)


async def _cancel_index(operations: Operations, request: Request) -> Any:
    return await operations.across.cancel_index(request.path_params["job"], index=index(request))


async def _force(operations: Operations, request: Request) -> Any:
    return await operations.across.force(request.path_params["job"])


async def _output(operations: Operations, request: Request) -> Any:
    return await operations.across.output(request.path_params["job"], index=index(request))


async def _outputs(operations: Operations, request: Request) -> Any:
    return await operations.across.outputs(request.path_params["job"])


async def _bring_outputs(operations: Operations, request: Request) -> Any:
    wanted = await body(request, BringOutputs)
    _check_directory(wanted.directory)
    return await operations.across.bring_outputs(request.path_params["job"], wanted)


async def _safe(operations: Operations, request: Request) -> Any:
    timeout_ms = number(request, "timeout_ms", default=0, most=WAIT_MS_MAX)
    return await operations.across.safe(request.path_params["job"], timeout_ms=timeout_ms)


async def _drain(operations: Operations, request: Request) -> Any:
    timeout_ms = number(request, "timeout_ms", default=0, most=WAIT_MS_MAX)
    now = bool(number(request, "now", default=0, most=1))
    return await operations.across.drain(word(request, "node"), timeout_ms=timeout_ms, now=now)


async def _undrain(operations: Operations, request: Request) -> Any:
    return await operations.across.undrain(word(request, "node"))


async def _snapshot(operations: Operations, _: Request) -> Any:
    return await operations.across.snapshot()


async def _pack(operations: Operations, request: Request) -> Any:
    wanted = await body(request, Pack)
    _check_directory(wanted.directory)
    for path in (*wanted.paths, wanted.python_env):
        _check_path(path)
    return await operations.across.pack(wanted)


def _check_directory(path: str) -> None:
    if not path.startswith("/"):
        raise BadValue(
            path,
            expected="directory: a path from / on",
            remedy="See /openapi.json",
            field="directory",
        )
    _check_path(path)


def _check_path(path: str) -> None:
    if "\0" in path:
        raise BadValue(path, expected="paths without zero bytes", remedy="See /openapi.json")


async def _node_status(operations: Operations, request: Request) -> Any:
    return await operations.across.status_of(word(request, "node"))


async def _node_sharing(operations: Operations, request: Request) -> Any:
    return await operations.across.sharing_of(word(request, "node"))


async def _sharing_everywhere(operations: Operations, _: Request) -> Any:
    return await operations.across.sharing_everywhere()


async def _node_queue(operations: Operations, request: Request) -> Any:
    limit = number(request, "limit", default=100, most=JOBS_MAX)
    return await operations.across.queue_of(word(request, "node"), limit=limit)


ACROSS_HANDLERS: Final[dict[str, Handler]] = {
    "requeue": _requeue,
    "rerun": _rerun,
    "cancel_index": _cancel_index,
    "force": _force,
    "output": _output,
    "outputs": _outputs,
    "bring_outputs": _bring_outputs,
    "safe": _safe,
    "drain": _drain,
    "undrain": _undrain,
    "snapshot": _snapshot,
    "pack": _pack,
    "node_status": _node_status,
    "node_sharing": _node_sharing,
    "sharing_everywhere": _sharing_everywhere,
    "node_queue": _node_queue,
}
