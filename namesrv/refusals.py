"""The answers of a NameServer that are not a success, in the words that peers and tools show."""

from types import MappingProxyType
from typing import Final

from remoting.codes import ResponseCode
from remoting.errors import RequestRefused


class CodeNotSupported(RequestRefused):
    """A request that no NameServer answers; the leading blank is Java's."""

    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    def __init__(self, request_code: int) -> None:
        self.request_code = request_code
        super().__init__(f" request type {request_code} not supported")


class FieldMissing(RequestRefused):
    """A request lacks a field without which it means nothing; Java answers success or an exception's text."""

    def __init__(self, request: str, field: str) -> None:
        self.request = request
        self.field = field
        super().__init__(f"{request} needs the header field {field}, which is missing or not readable")


class NameTooLong(RequestRefused):
    """A name that no broker can have; it would be kept, and sent to everybody."""

    #: Characters of a cluster, broker or topic name, and of an address.
    CHARS_MAX: Final = 1024

    def __init__(self, request: str, field: str, chars: int) -> None:
        self.request = request
        self.field = field
        self.chars = chars
        super().__init__(f"{request}: {field} has {chars} characters, more than {self.CHARS_MAX}")


class KvKeyMissing(RequestRefused):
    """PUT_KV_CONFIG without namespace or key."""

    def __init__(self) -> None:
        super().__init__("namespace or key is null")


class QueryNotFound(RequestRefused):
    """No such KV entry."""

    code = ResponseCode.QUERY_NOT_FOUND
    ext_fields = MappingProxyType({})

    def __init__(self, namespace: str | None, key: str | None) -> None:
        self.namespace = namespace
        self.key = key
        super().__init__(f"No config item, Namespace: {_java(namespace)} Key: {_java(key)}")


class KvNamespaceNotFound(RequestRefused):
    """No such KV namespace."""

    code = ResponseCode.QUERY_NOT_FOUND

    def __init__(self, namespace: str | None) -> None:
        self.namespace = namespace
        super().__init__(f"No config item, Namespace: {_java(namespace)}")


class TopicNotExist(RequestRefused):
    """No broker has the topic; clients test the code, tools show the text."""

    code = ResponseCode.TOPIC_NOT_EXIST

    #: A name longer than any broker can create is cut in the remark.
    SHOWN_CHARS_MAX: Final = 1024

    def __init__(self, topic: str | None) -> None:
        self.topic = topic
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


def _java(text: str | None) -> str:
    return "null" if text is None else text
