"""What an option of a server is: its names, what values it may have, and how text becomes one of them.

The options themselves stand in `server_config.py`, and in that of each server. Java converts by reflection in
`MixAll.properties2Object`, and drops what it cannot convert; here the caller
gets None and refuses it.
"""

import re
from dataclasses import field
from typing import ClassVar, Final, TypeVar

import msgspec

from remoting.protocol.addresses import named_addresses

#: Java's `int`, the range of a number that has no other.
INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
#: The greatest `long` of Java, and the greatest number that any option takes.
LONG_MAX: Final = 2**63 - 1

#: Longest text that an option holds: the longest path of a POSIX system.
TEXT_CHARS_MAX: Final = 4096

#: Replaces a secret that is set in a listing.
MASK: Final = "******"

OptionValue = bool | int | str
Value = TypeVar("Value", bound=OptionValue)

#: Where the field of a configuration has its option, in its metadata.
OPTION: Final = "option"

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
#: UTF-8 that Java reads as Latin-1 has C1 controls, so those are no reason to refuse a value.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\s\[\]:;,]+):([0-9]{1,5})")
_PORT_MAX: Final = 65535
_WORD_BREAK: Final = re.compile(r"\.|(?<=[a-z0-9])(?=[A-Z])")


class Whole(msgspec.Struct, frozen=True):
    """A whole number in decimal digits."""

    least: int = INT_MIN
    most: int = INT_MAX

    placeholder: ClassVar[str] = "N"

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def value_of(self, text: str) -> int | None:
        digits = text.strip()
        if not _WHOLE.fullmatch(digits):
            return None
        value = int(digits)
        return value if self.least <= value <= self.most else None


class Flag(msgspec.Struct, frozen=True):
    """True or false, in any case of letters."""

    placeholder: ClassVar[str] = "true|false"
    allowed: ClassVar[str] = "true or false"

    def value_of(self, text: str) -> bool | None:
        return {"true": True, "false": False}.get(text.strip().lower())


class AlwaysFalse(msgspec.Struct, frozen=True):
    """A switch of the Java server for a part that this one does not have."""

    #: What is missing, and what to do instead.
    why: str

    placeholder: ClassVar[str] = "false"

    @property
    def allowed(self) -> str:
        return f"false ({self.why})"

    def value_of(self, text: str) -> bool | None:
        return False if Flag().value_of(text) is False else None


class OneOf(msgspec.Struct, frozen=True):
    """One of some words, in any case of letters; the value is the word as it is spelled here."""

    words: tuple[str, ...]

    @property
    def placeholder(self) -> str:
        return "|".join(self.words)

    @property
    def allowed(self) -> str:
        return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))

    def value_of(self, text: str) -> str | None:
        wanted = text.strip().lower()
        return next((word for word in self.words if word.lower() == wanted), None)


class Text(msgspec.Struct, frozen=True):
    """Some text on one line, without the blanks around it."""

    may_be_blank: bool = True

    placeholder: ClassVar[str] = "TEXT"

    @property
    def allowed(self) -> str:
        what = "text" if self.may_be_blank else "text that is not blank,"
        return f"{what} of at most {TEXT_CHARS_MAX} characters without control characters"

    def value_of(self, text: str) -> str | None:
        value = text.strip()
        return value if is_one_line(value) and (value or self.may_be_blank) else None


class FilePath(Text, frozen=True):
    """The path of a file; a leading `~/` stands for the home folder."""

    placeholder: ClassVar[str] = "FILE"

    @property
    def allowed(self) -> str:
        return f"a path on this machine, not a URI, of at most {TEXT_CHARS_MAX} characters"

    def value_of(self, text: str) -> str | None:
        return None if "://" in text else super().value_of(text)


class Secret(msgspec.Struct, frozen=True):
    """A text that is never shown: any characters, blanks included."""

    placeholder: ClassVar[str] = "SECRET"
    allowed: ClassVar[str] = f"at most {TEXT_CHARS_MAX} characters"

    def value_of(self, text: str) -> str | None:
        return text if len(text) <= TEXT_CHARS_MAX else None


class AddressList(msgspec.Struct, frozen=True):
    """Addresses `host:port` with a `;` between them, as RocketMQ writes them; blank for none."""

    placeholder: ClassVar[str] = "HOST:PORT;..."
    allowed: ClassVar[str] = "addresses as host:port, separated by ';'"

    def value_of(self, text: str) -> str | None:
        addresses = [part for each in text.split(";") if (part := each.strip())]
        matches = [_HOST_AND_PORT.fullmatch(each) for each in addresses]
        are_right = all(match is not None and 0 < int(match[1]) <= _PORT_MAX for match in matches)
        value = ";".join(addresses)
        return value if are_right and is_one_line(value) else None


class NamedAddressList(msgspec.Struct, frozen=True):
    """Addresses, networks and names of hosts with a `;` between them; blank for none."""

    placeholder: ClassVar[str] = "HOST|NETWORK[:PORT];..."
    allowed: ClassVar[str] = (
        "IP addresses, networks (10.0.0.0/16, neither 10.0.0.5/16 nor 0.0.0.0/0) or host names, each with or without "
        ":port, separated by ';'"
    )

    def value_of(self, text: str) -> str | None:
        value = ";".join(part for each in text.split(";") if (part := each.strip()))
        return value if is_one_line(value) and named_addresses(value) is not None else None


Kind = Whole | Flag | AlwaysFalse | OneOf | Text | Secret | AddressList | NamedAddressList


class Fixed(msgspec.Struct, frozen=True):
    """No request changes it, whatever the operator allows."""

    #: What a request could do with it; follows "because".
    why: str


class Closed(msgspec.Struct, frozen=True):
    """No request changes it, unless the operator names it in configWhiteList."""

    #: As of `Fixed`.
    why: str


class Within(msgspec.Struct, frozen=True):
    """A request may give some of the values, and all of them where the operator names it in configWhiteList."""

    kind: Kind
    #: What a request could do with the others; follows "because".
    why: str


class AnyValue(msgspec.Struct, frozen=True):
    """A request may give every value: none of them harms others."""


#: Whether a request may change an option, and to which values. Nobody needs a password to send one: it may change what
#: is harmless, or harmless within a range. What names a file or an address, or guards a door, is the operator's alone.
ByRequest = Fixed | Closed | Within | AnyValue

ANY_VALUE: Final = AnyValue()
NAMES_A_FILE: Final = Fixed("it names a file")
LISTENS: Final = Fixed("it decides where the server listens")
KEEPS_OUT: Final = Closed("it can lock out all peers, or exhaust the memory")


class Option(msgspec.Struct, frozen=True):
    """One option: its names and its rules; `option` makes the field that holds its value and default."""

    #: The property as files and requests 318 and 319 spell it.
    key: str
    kind: Kind
    #: One sentence for `--help`, with the unit.
    explanation: str
    by_request: ByRequest
    #: Other names under which a file or the environment may give it.
    also: tuple[str, ...] = ()
    #: False for an option with an effect in the Java server only: accepted, checked and listed.
    has_effect: bool = True
    #: Whether a change by request counts at once; else it counts from the next start.
    at_once: bool = False

    @property
    def is_secret(self) -> bool:
        return isinstance(self.kind, Secret)

    @property
    def argument(self) -> str:
        return "--" + _words(self.key, "-").lower()

    @property
    def variable(self) -> str:
        """Return its name in the environment, without the prefix of its server: `LISTEN_PORT`."""
        return _words(self.key, "_").upper()

    @property
    def mark(self) -> str:
        """What a request may change, as the legend in `arguments.py` explains it."""
        restart = ", restart" if self.has_effect and not self.at_once else ""
        match self.by_request:
            case Fixed():
                return "fixed"
            case Closed():
                return f"white list{restart}"
            case Within(kind):
                return f"request: {kind.allowed}{restart}"
            case AnyValue():
                return f"request{restart}"

    def shown(self, value: str) -> str:
        """Return the text of a value as it may be shown to anybody."""
        return MASK if self.is_secret and value else value


def described(default: Value, option: Option) -> Value:
    """Return the field of a configuration that holds the value of an option; a secret is not in its `repr`."""
    return field(default=default, repr=not option.is_secret, metadata={OPTION: option})


def option(
    default: Value,
    key: str,
    kind: Kind,
    explanation: str,
    by_request: ByRequest,
    *,
    also: tuple[str, ...] = (),
    has_effect: bool = True,
    at_once: bool = False,
) -> Value:
    """Hold an option of one server with its value, as the default of a field of its configuration."""
    return described(default, Option(key, kind, explanation, by_request, also, has_effect, at_once))


def unused(default: Value, key: str, kind: Kind, explanation: str) -> Value:
    """Return the field of an option with an effect in the Java server only, which a request may give any value."""
    return option(default, key, kind, explanation, ANY_VALUE, has_effect=False)


def is_one_line(text: str) -> bool:
    """Return whether a text fits into one line of a listing: not too long, and no control character in it."""
    return len(text) <= TEXT_CHARS_MAX and not _CONTROL.search(text)


def text_of(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(key: str, between: str) -> str:
    return _WORD_BREAK.sub(between, key)
