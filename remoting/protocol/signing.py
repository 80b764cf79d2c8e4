"""Signs requests for brokers with ACL, and recognises their denials.

Answers to `AclClientRPCHook`, `AclUtils` and `AclSigner`, whose keys and algorithm ACL 1.0 (4.9 to 5.2) and ACL 2.0
(5.3 and later) have in common. The signature covers the values of the header's fields, sorted by the fields' names, and
the body: neither the code nor the time. A receiver can replay it as another request, to every broker that knows the
user: so the `Signer` decides for which peers requests are signed.
"""

import hmac
from base64 import b64encode
from typing import Final

import msgspec

from remoting.protocol.addresses import NamedAddress, ip_of
from remoting.protocol.codes import ResponseCode
from remoting.protocol.command import RemotingCommand

_ACCESS_KEY: Final = "AccessKey"
_SIGNATURE: Final = "Signature"

#: Brokers with ACL 1.0 write it into the remark; the code is that of every failure.
_ACL_1_REMARK: Final = "AclException"


class Credentials(msgspec.Struct, frozen=True):
    """A user of the brokers and its secret; `repr` shows neither."""

    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return "Credentials(******)"


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of requests, and the peers for which they are signed."""

    credentials: Credentials
    #: The peers that the operator lists.
    named: tuple[NamedAddress, ...] = ()
    #: Whether every peer has a certificate of an authority that the operator configured.
    verifies_all: bool = False

    def signs_for(self, host: str, peer: tuple[str, int] | None) -> bool:
        """Return True if requests to a peer known as `host` are signed; `peer` is the real end of the connection."""
        if self.verifies_all:
            return True
        if peer is None:
            return False
        ip, port = ip_of(peer[0]), peer[1]
        return any(each.matches(host, ip, port) for each in self.named)


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a peer with ACL denied: the user is unknown, or may not send it."""

    address: str
    request_code: int
    remark: str
    is_signed: bool


class SigningObserver:
    """Receives what becomes of requests that should be signed, and ignores it unless a subclass overrides."""

    def denied(self, denial: Denial) -> None:
        """Report a request that a peer with ACL denied."""

    def unsigned(self, address: str) -> None:
        """Report the address of a request that goes unsigned although there is a signer."""


def signed(request: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return the request with its signature; its code, opaque and flag may still be changed."""
    fields = {**(request.ext_fields or {}), _ACCESS_KEY: credentials.access_key}
    content = "".join(fields[name] for name in sorted(fields) if name != _SIGNATURE).encode() + request.body
    digest = hmac.digest(credentials.secret_key.encode(), content, "sha1")
    return msgspec.structs.replace(request, ext_fields={**fields, _SIGNATURE: b64encode(digest).decode()})


def is_denied(answer: RemotingCommand) -> bool:
    """Return True if a broker denied a request because the user is unknown, or may not send it."""
    if answer.code == ResponseCode.NO_PERMISSION:
        return True
    return answer.code == ResponseCode.SYSTEM_ERROR and _ACL_1_REMARK in (answer.remark or "")
