"""The answers of a NameServer that are not a success, in the words that peers and tools show."""

from types import MappingProxyType
from typing import Final

from remoting.protocol.addresses import NAME_CHARS_MAX
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import RequestRefused
from remoting.protocol.plain_text import escape_of, is_plain


class FieldMissing(RequestRefused):
    """A request lacks a field without which it means nothing; Java answers success or an exception's text."""

    def __init__(self, request: str, field: str) -> None:
        super().__init__(f"{request} needs the header field {field}, which is missing or not readable")


class NameTooLong(RequestRefused):
    """A name that no broker can have; it would be kept, and sent to everybody."""

    #: Characters of a cluster, broker or topic name, and of an address.
    CHARS_MAX: Final = 1024

    def __init__(self, request: str, field: str, chars: int) -> None:
        super().__init__(f"{request}: {field} has {chars} characters, more than {self.CHARS_MAX}")


class FieldInvalid(RequestRefused):
    """A name or an address that can be none: too long, with control characters, or not `host:port`."""

    def __init__(self, request: str, field: str, text: str) -> None:
        problem = f"of {len(text)} characters; names have at most {NAME_CHARS_MAX}, addresses are host:port"
        if hidden := ", ".join(sorted({escape_of(each) for each in text if not is_plain(each)})[:5]):
            problem = f"as it has characters that are not shown: {hidden}; leave them out, or write Chinese as \\u7ecf"
        super().__init__(f"{request}: {field} cannot be {text[:80]!r} {problem}")


class RegistrationRefused(RequestRefused):
    """A registration is answered with an error, and nothing has changed."""

    ext_fields = MappingProxyType({})


class TooManyMembers(RequestRefused):
    """A broker set that would have more brokers than any has; all are sent to every client of its topics."""

    def __init__(self, broker_name: str, members_max: int, whose: str = "") -> None:
        super().__init__(f"the set {broker_name} has {members_max} brokers{whose}, which is the limit")


class TooManyBrokers(RequestRefused):
    """A new broker beyond what one connection, or all together, may register."""


class TooManyTopics(RequestRefused):
    """Topics beyond what those of one connection, one host or all together may take of the memory."""

    def __init__(self, broker_name: str, excess: str) -> None:
        super().__init__(f"more topics of {broker_name} are not registered: {excess}")


class KeepInvalid(RequestRefused):
    """A watch that would end at once, or never."""

    def __init__(self, keep_ms: int | None, keep_ms_min: int, keep_ms_max: int) -> None:
        super().__init__(f"WATCH_ROUTE_FETCHES: keepMs must be {keep_ms_min} to {keep_ms_max}, not {keep_ms}")


class TooManyWatchedTopics(RequestRefused):
    """One more topic to watch than there may be; queries for watched topics cost more than others."""

    def __init__(self, topics_max: int) -> None:
        super().__init__(f"the route fetches of {topics_max} topics are watched, which is the limit")


class KvTooLong(RequestRefused):
    """An entry, or a KV table, that is larger than those of operators; the whole is written at each change."""

    def __init__(self, what: str, size: int, size_max: int) -> None:
        super().__init__(f"{what}: {size}, and the limit is {size_max}")


class KvKeyMissing(RequestRefused):
    def __init__(self) -> None:
        super().__init__("namespace or key is null")


class QueryNotFound(RequestRefused):
    code = ResponseCode.QUERY_NOT_FOUND
    ext_fields = MappingProxyType({})

    def __init__(self, namespace: str | None, key: str | None) -> None:
        super().__init__(f"No config item, Namespace: {_java(namespace)} Key: {_java(key)}")


class KvNamespaceNotFound(RequestRefused):
    code = ResponseCode.QUERY_NOT_FOUND

    def __init__(self, namespace: str | None) -> None:
        super().__init__(f"No config item, Namespace: {_java(namespace)}")


class TopicNotExist(RequestRefused):
    """No broker has the topic; clients test the code, tools show the text."""

    code = ResponseCode.TOPIC_NOT_EXIST

    #: A name longer than any broker can create is cut in the remark.
    SHOWN_CHARS_MAX: Final = 1024

    def __init__(self, topic: str | None) -> None:
        super().__init__(
            f"No topic route info in name server for the topic: {_java(topic)[: self.SHOWN_CHARS_MAX]}\n"
            "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
        )


class ListDisabled(RequestRefused):
    """enableAllTopicList or enableTopicList is off."""

    def __init__(self) -> None:
        super().__init__("disable")


class NotReady(RequestRefused):
    """needWaitForService is on and waitSecondsForService are not over."""

    def __init__(self) -> None:
        super().__init__("name server not ready")


class TooManyWaiting(RequestRefused):
    """So many queries wait for what other NameServers know that no more may."""

    code = ResponseCode.SYSTEM_BUSY

    def __init__(self) -> None:
        super().__init__("[OVERLOAD]system busy, other NameServers are being asked for many topics")


def _java(text: str | None) -> str:
    return "null" if text is None else text
