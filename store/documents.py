"""Documents that a store has in addition to broker sets: their kinds, names and limits; pure.

A document is JSON that whoever changes it encodes and decodes; the store compares revisions, not contents.
"""

import enum
from typing import Final, NamedTuple

import msgspec

#: The longest name, in characters: a topic or a broker name of Java's is not longer.
DOCUMENT_NAME_CHARACTERS_MAX: Final = 255
#: The largest value, in bytes; etcd takes requests up to 1.5 MiB.
DOCUMENT_BYTES_MAX: Final = 256 << 10
#: How many documents of one kind there may be.
DOCUMENTS_OF_KIND_MAX: Final = 10_000
#: How many documents are read at once: 8 MiB at most, which take less than a second at 100 Mbit/s.
DOCUMENT_PAGE: Final = 32


class DocumentKind(enum.StrEnum):
    """What a document is about; each kind has names of its own."""

    #: Operations that change the queues of a topic, and have not ended; by the topic.
    SCALING_OPERATION = "scaling-operation"
    #: Operations that have ended; by their ids.
    SCALING_HISTORY = "scaling-history"
    #: When the queues of topics are to be changed by themselves.
    SCALING_POLICY = "scaling-policy"
    #: How the groups of a topic consumed when their clients were queried last; by the topic.
    GROUP_KINDS = "group-kinds"
    #: Restarts of the brokers of a set one by one, under way or the last ones; by the broker name.
    ROLLING_RESTART = "rolling-restart"
    #: Which master of each set was delivered last by `onRoleChange`.
    ROLE_CALLBACK = "role-callback"
    #: The last elections with their reasons, of sets by a digest of their names.
    ELECTIONS = "elections"


#: The kinds that queue scaling and rolling restarts keep together.
OPERATION_KINDS: Final = (
    DocumentKind.SCALING_OPERATION,
    DocumentKind.SCALING_HISTORY,
    DocumentKind.SCALING_POLICY,
    DocumentKind.ROLLING_RESTART,
    DocumentKind.GROUP_KINDS,
)


class VersionedDocument(NamedTuple):
    """The value of a document and its revision; revision 0 is that of a document that does not exist."""

    value: bytes = b""
    revision: int = 0
    #: Why it cannot be read, for people; the value here is empty then, and is not to be changed.
    problem: str = ""


def fault_of_document(name: str, value: bytes | None) -> str:
    """Return why no store takes a document, blank if stores do; None as value stands for its removal."""
    if len(name) > DOCUMENT_NAME_CHARACTERS_MAX:
        return f"its name has {len(name)} characters; shorten it to {DOCUMENT_NAME_CHARACTERS_MAX}"
    if not _is_unicode(name):
        return "its name has characters that UTF-8 cannot encode; leave them out"
    if value is None:
        return ""
    if len(value) > DOCUMENT_BYTES_MAX:
        return f"it has {len(value)} bytes; shorten it to {DOCUMENT_BYTES_MAX}"
    return fault_of_value(value)


def fault_of_value(value: bytes) -> str:
    """Return why a value is no JSON, blank if it is."""
    try:
        value.decode()
        msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it is not JSON: {error}"
    return ""


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in name)
