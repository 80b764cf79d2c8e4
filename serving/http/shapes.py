"""Bodies of the HTTP answers that any server has; `openapi.py` describes them from here."""

from typing import Literal

import msgspec


class Fault(msgspec.Struct, frozen=True, rename="camel"):
    """What went wrong."""

    #: One word for programs: `not_found`, `bad_request`, `method_not_allowed`, `unavailable`, `internal`.
    code: str
    #: One sentence for people.
    message: str


class ErrorAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Body of every answer from 400 on."""

    error: Fault


class HealthAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The probe holds."""

    status: Literal["ok", "ready"]


class ConfigView(msgspec.Struct, frozen=True, rename="camel"):
    """The properties in force."""

    #: As in a configuration file, secrets masked.
    properties: dict[str, str]
