"""What a server calls where something happens: a program with its arguments, or a URL."""

import shlex
from typing import ClassVar
from urllib.parse import urlsplit

from serving.config.options import TEXT_CHARS_MAX, Text

_SCHEMES = ("http", "https")


class CallbackTarget(Text, frozen=True):
    """A program by its absolute path, with arguments, or an http or https URL; blank for none."""

    placeholder: ClassVar[str] = "PROGRAM ARGUMENTS...|URL"
    allowed: ClassVar[str] = (
        "the absolute path of a program with its arguments, quoted as in a shell (no shell runs it), or a URL "
        "http(s)://host[:port]/path without user, password and fragment; a token belongs in a file; at most "
        f"{TEXT_CHARS_MAX} characters"
    )

    def value_of(self, text: str) -> str | None:
        value = super().value_of(text)
        if not value:
            return value
        return value if (_is_plain_url(value) if is_url(value) else program_of(value)) else None


def is_url(value: str) -> bool:
    """Return whether a target is meant as a URL."""
    return "://" in value.partition(" ")[0]


def program_of(value: str) -> tuple[str, ...]:
    """Return the absolute path of a program and its arguments; empty if the text names none."""
    try:
        words = tuple(shlex.split(value))
    except ValueError:
        # A quotation that does not end.
        return ()
    return words if words and words[0].startswith("/") else ()


def _is_plain_url(value: str) -> bool:
    if not value.isascii() or any(each.isspace() for each in value):
        return False
    try:
        url = urlsplit(value)
        has_port = url.port is None or url.port > 0
    except ValueError:
        return False
    is_bare = url.username is None and url.password is None and not url.fragment
    return url.scheme in _SCHEMES and bool(url.hostname) and has_port and is_bare
