"""The OpenAPI 3.1 description of the HTTP paths, made from their table and the shapes of their answers."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from serving import __version__
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.http.endpoints import JSON_TYPE, Endpoint, Parameter
from serving.http.views import ErrorAnswer

#: Where the description itself is answered.
PATH: Final = "/v1/openapi.json"

_REFUSALS: Final = {
    400: "The query, the cursor or a header cannot be read.",
    404: "There is no such thing.",
    500: "A fault of the server; its log has more.",
    503: "The server is starting or draining.",
}


def document(kind: ServerKind[Config], endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the description of all paths of a server as plain values."""
    shapes: list[type] = list(dict.fromkeys(each.shape for each in endpoints if each.shape is not None))
    schemas, components = msgspec.json.schema_components(
        [*shapes, ErrorAnswer], ref_template="#/components/schemas/{name}"
    )
    by_shape = dict(zip([*shapes, ErrorAnswer], schemas, strict=True))
    paths = {each.path: {"get": _operation(each, by_shape)} for each in endpoints}
    paths[PATH] = {"get": _own_operation(by_shape)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"RocketMQ {kind.name}",
            "version": __version__,
            "description": f"Read-only views of one {kind.name}. HEAD is answered wherever GET is.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, schemas: dict[type, dict[str, Any]]) -> dict[str, Any]:
    schema = {"type": "string"} if endpoint.shape is None else schemas[endpoint.shape]
    return {
        "operationId": endpoint.path.strip("/").replace("/", "_").replace("{", "").replace("}", "").replace("-", "_"),
        "summary": endpoint.summary,
        "parameters": [*_parameters(endpoint.parts, "path"), *_parameters(endpoint.parameters or (), "query")],
        "responses": {
            "200": {"description": "OK", "content": {endpoint.content_type: {"schema": schema}}},
            **_refusals((*endpoint.refusals, 500), schemas),
        },
    }


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
