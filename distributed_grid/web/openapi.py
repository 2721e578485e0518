"""The OpenAPI document, from the table of routes and msgspec's schemas."""

from functools import cache
from typing import Any

import msgspec

from distributed_grid import __version__
from distributed_grid.wire.across_api import ACROSS_ROUTES
from distributed_grid.wire.api import ROUTES, Nothing, Problem, Route, Submit
from distributed_grid.wire.cache import CACHE_ROUTES
from distributed_grid.wire.mesh_api import MESH_ROUTES
from distributed_grid.wire.new_jobs import NewJob, NewJobs
from distributed_grid.wire.sharing import SHARING_ROUTES


@cache
def openapi_document() -> bytes:
    """The document as JSON."""
    routes = (*ROUTES, *SHARING_ROUTES, *MESH_ROUTES, *ACROSS_ROUTES, *CACHE_ROUTES)
    kinds = [kind for route in routes for kind in (route.request, route.answer) if _is_struct(kind)]
    kinds += [NewJob, NewJobs]
    schemas, components = msgspec.json.schema_components(
        [*kinds, Problem], ref_template="#/components/schemas/{name}"
    )
    by_kind = dict(zip([*kinds, Problem], schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Grid", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }
    return msgspec.json.encode(document)


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    answer = (
        {_media(route): {"schema": schemas[route.answer]}}
        if _is_struct(route.answer)
        else {route.answer: {}}
    )
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": {
            "200": {"description": route.summary, "content": answer},
            "default": {
                "description": "What went wrong",
                "content": {"application/json": {"schema": schemas[Problem]}},
            },
        },
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
            for name in route.query
        ],
    }
    for name in ("job", "map", "name", "node", "ticket"):
        if f"{{{name}}}" in route.path:
            operation["parameters"].append(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            )
    if route.request is not Nothing:
        asked = schemas[route.request]
        if route.request is Submit:  # Whole ones are all that our own clients send.
            asked = {"anyOf": [schemas[NewJob], schemas[NewJobs]]}
        operation["requestBody"] = {"content": {_media(route): {"schema": asked}}}
    return operation


def _media(route: Route) -> str:
    # In msgpack, what the schema calls base64 text are the bytes themselves.
    return f"application/{route.codec}"


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
