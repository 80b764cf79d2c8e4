"""Signatures by which brokers with ACL know who sends a request.

Answers to `AclClientRPCHook`, `AclUtils` and `AclSigner`, whose keys and algorithm ACL 1.0 (4.9 to 5.2) and ACL 2.0
(5.3 and later) have in common. The signature covers the values of the header's fields, sorted by the fields' names, and
the body: neither the code nor the time. Whoever gets one can send it on as another request, to every broker that knows
the user: so there is a `Signer`, who knows for whom requests are signed.
"""

import hmac
from base64 import b64encode
from typing import Final

import msgspec

from remoting.protocol.codes import ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.named_addresses import NamedAddress, ip_of

_ACCESS_KEY: Final = "AccessKey"
_SIGNATURE: Final = "Signature"

#: What brokers with ACL 1.0 write into the remark, beside the code that every failure has.
_ACL_1_REMARK: Final = "AclException"


class Credentials(msgspec.Struct, frozen=True):
    """A user of the brokers, and the secret that both sides know; shown nowhere."""

    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return "Credentials(******)"


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """Whose requests they are, and for whom they are signed."""

    credentials: Credentials
    #: Peers of the operator's.
    named: tuple[NamedAddress, ...] = ()
    #: Whether the other end of every connection has shown a certificate of an authority that the operator names.
    verifies_all: bool = False

    def signs_for(self, host: str, peer: tuple[str, int] | None) -> bool:
        """Tell whether to sign for who was told to us as `host`; `peer` is where the connection really leads."""
        if self.verifies_all:
            return True
        if peer is None:
            return False
        ip, port = ip_of(peer[0]), peer[1]
        return any(each.means(host, ip, port) for each in self.named)


def signed(request: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return a request that says whose it is; its code, number and flag may still be changed."""
    fields = {**(request.ext_fields or {}), _ACCESS_KEY: credentials.access_key}
    content = "".join(fields[name] for name in sorted(fields) if name != _SIGNATURE).encode() + request.body
    digest = hmac.digest(credentials.secret_key.encode(), content, "sha1")
    return msgspec.structs.replace(request, ext_fields={**fields, _SIGNATURE: b64encode(digest).decode()})


def is_denied(answer: RemotingCommand) -> bool:
    """Tell whether a broker does not take a request because of who sends it, or because it does not know who."""
    if answer.code == ResponseCode.NO_PERMISSION:
        return True
    return answer.code == ResponseCode.SYSTEM_ERROR and _ACL_1_REMARK in (answer.remark or "")
