"""RemotingCommand: one request or response, as the peers of RocketMQ exchange them.

Answers to Java's `RemotingCommand`, without its header reflection: `codec.py` turns fields into shapes.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from remoting.protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, VERSION_5_5_0, ResponseCode
from remoting.protocol.errors import RequestRefused

#: Our language and version in headers. They are those of Java 5.5.0: no peer depends on them, and unchanged peers see
#: unchanged responses.
OUR_LANGUAGE: Final = "JAVA"
OUR_VERSION: Final = VERSION_5_5_0


class RemotingCommand(msgspec.Struct, frozen=True):
    """One message: header fields and a body of bytes (`b""` = no body, which is the same thing on the wire)."""

    code: int
    opaque: int = 0
    flag: int = 0
    #: None for an unknown name or number.
    language: str | None = OUR_LANGUAGE
    #: Ordinal of the sender's release, docs/protocol/remoting.md 7; may be negative from a broken peer.
    version: int = OUR_VERSION
    remark: str | None = None
    #: None and `{}` differ on the wire: answers with a header class always carry the key.
    ext_fields: Mapping[str, str] | None = None
    body: bytes = b""
    #: Bytes of a body that was dropped because the request is refused.
    left_out_bytes: int = 0

    @property
    def is_response(self) -> bool:
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no response, not even an error."""
        return self.flag & FLAG_ONEWAY != 0

    def reply(
        self,
        code: int = ResponseCode.SUCCESS,
        *,
        remark: str | None = None,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> "RemotingCommand":
        """Return the response to this request: same opaque, response flag, our language and version."""
        return RemotingCommand(code, self.opaque, FLAG_RESPONSE, OUR_LANGUAGE, OUR_VERSION, remark, ext_fields, body)

    def refusal(self, error: RequestRefused) -> "RemotingCommand":
        """Return the response that says why this request was refused."""
        return self.reply(error.code, remark=str(error), ext_fields=error.ext_fields)
