"""The OpenAPI 3.1 description of the HTTP paths, made from their table and the shapes of their answers."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from serving import __version__
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.http.admin_access import CLIENT_PROPERTY, PROPERTY
from serving.http.paths import JSON_TYPE, Endpoint, Parameter
from serving.http.views import ErrorAnswer

#: Where the description itself is answered.
PATH: Final = "/v1/openapi.json"

_REFUSALS: Final = {
    400: "The query, the cursor, a header or the body is malformed.",
    401: "The required token is missing or wrong.",
    403: "Changes over HTTP are off, or the request comes from a page of another site.",
    404: "Not found.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with the present state; the message says how.",
    413: "The body is too long.",
    415: "The body is not JSON by its Content-Type, or is compressed.",
    422: "A field of the body is unknown, missing, of another type, or has a value that is not allowed.",
    429: "Too many requests; repeat after the time in Retry-After.",
    500: "A fault of the server; see its log.",
    503: "The server is starting or draining, does not lead, or cannot reach its store.",
    504: "The outcome is unknown: check the present state before you repeat the request.",
}

_ADMIN: Final = "adminToken"
_CLIENT: Final = "clientToken"
_SECURITY: Final = {
    _ADMIN: {
        "type": "http",
        "scheme": "bearer",
        "description": f"First line of the file named by {PROPERTY}. Reading needs no token.",
    }
}
_CLIENT_SECURITY: Final = {
    _CLIENT: {
        "type": "http",
        "scheme": "bearer",
        "description": f"First line of the file named by {CLIENT_PROPERTY}. The admin token works too.",
    }
}


def document(kind: ServerKind[Config], endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    used = (shape for each in endpoints for shape in (each.shape, each.body) if shape is not None)
    shapes: list[type] = list(dict.fromkeys(used))
    schemas, components = msgspec.json.schema_components(
        [*shapes, ErrorAnswer], ref_template="#/components/schemas/{name}"
    )
    by_shape = dict(zip([*shapes, ErrorAnswer], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_shape)
    paths[PATH] = {"get": _own_operation(by_shape)}
    changes = any(each.changes for each in endpoints)
    security = _SECURITY | (_CLIENT_SECURITY if any(each.is_for_clients for each in endpoints) else {})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"RocketMQ {kind.name}",
            "version": __version__,
            "description": _description(kind.name, changes=changes),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, **({"securitySchemes": security} if changes else {})},
    }


def _description(name: str, *, changes: bool) -> str:
    what = f"Views of one {name}, and requests that change it." if changes else f"Read-only views of one {name}."
    return (
        f"{what} HEAD works wherever GET does. A method that a path does not have is answered 405; Allow names those "
        "that it has."
    )


def _operation(endpoint: Endpoint, schemas: dict[type, dict[str, Any]]) -> dict[str, Any]:
    schema = {"type": "string"} if endpoint.shape is None else schemas[endpoint.shape]
    name = endpoint.path.strip("/").replace("/", "_").replace("{", "").replace("}", "").replace("-", "_")
    return {
        "operationId": f"{endpoint.method.lower()}_{name}" if endpoint.changes else name,
        "summary": endpoint.summary,
        **_changing(endpoint, schemas),
        "parameters": [*_parameters(endpoint.parts, "path"), *_parameters(endpoint.parameters or (), "query")],
        "responses": {
            str(endpoint.status): {
                "description": HTTPStatus(endpoint.status).phrase,
                "content": {endpoint.content_type: {"schema": schema}},
            },
            **_refusals(endpoint.all_refusals, schemas),
        },
    }


def _changing(endpoint: Endpoint, schemas: dict[type, dict[str, Any]]) -> dict[str, Any]:
    """Return what only an operation has that changes something."""
    schemes: list[dict[str, Any]] = [{_CLIENT: []}] if endpoint.is_for_clients else []
    security: dict[str, Any] = {"security": [*schemes, {_ADMIN: []}]} if endpoint.changes else {}
    if endpoint.body is None:
        return security
    content = {JSON_TYPE: {"schema": schemas[endpoint.body]}}
    explanation = f"At most {endpoint.body_bytes_max} bytes; other fields are refused."
    return {**security, "requestBody": {"description": explanation, "required": True, "content": content}}


def _own_operation(schemas: dict[type, dict[str, Any]]) -> dict[str, Any]:
    return {
        "operationId": "openapi",
        "summary": "This description.",
        "parameters": [],
        "responses": {
            "200": {"description": "OK", "content": {JSON_TYPE: {"schema": {"type": "object"}}}},
            **_refusals((500,), schemas),
        },
    }


def _parameters(parameters: Iterable[Parameter], place: str) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "in": place,
            "required": place == "path",
            "description": each.explanation,
            "schema": each.schema,
        }
        for each in parameters
    ]


def _refusals(statuses: Iterable[int], schemas: dict[type, dict[str, Any]]) -> dict[str, Any]:
    content = {JSON_TYPE: {"schema": schemas[ErrorAnswer]}}
    return {str(status): {"description": _REFUSALS[status], "content": content} for status in statuses}
