"""The body of a registration in its three forms: JSON, the bare wrapper of very old brokers, and the compressed form.

Answers to `RegisterBrokerBody.decode` (docs/protocol/namesrv.md 2.5). Pure: bytes in, values out.
"""

import zlib
from types import MappingProxyType
from typing import Final

from namesrv.core.registration.accepted_topics import PreviousRegistration, RegistrationBody
from namesrv.core.registration.compressed_body import decode_compressed, is_zlib
from namesrv.core.registration.incremental_body import decode_incremental
from namesrv.core.registration.json_body import decode_json
from namesrv.core.values.cooperative import CooperativeTask
from remoting.protocol.codes import VERSION_3_0_11
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.protocol.shapes.route import DataVersion

#: So much of a body is checked at a time: it takes some milliseconds.
_CHECKSUM_BYTES: Final = 4 * 1024 * 1024


class RegistrationRefused(RequestRefused):
    """A registration is answered with an error, and nothing has changed."""

    ext_fields = MappingProxyType({})


def decode_registration(
    body: bytes,
    *,
    crc32: int,
    compressed: bool,
    version: int,
    unix_ms: int,
    previous: PreviousRegistration | None = None,
) -> CooperativeTask[RegistrationBody]:
    """Return what `body` reports, as the difference to `previous` where that is given and possible.

    A body without a data version counts as changed at `unix_ms`. Raises RegistrationRefused if the checksum is wrong or
    the body cannot be read or inflated.
    """
    if crc32 and crc32 != (yield from _checksum(body)):
        raise RegistrationRefused("crc32 not match")
    if not body:
        return RegistrationBody(DataVersion(), {}, {}, None if version < VERSION_3_0_11 else ())
    try:
        # 5.x brokers with compressedRegister=true compress the body and send compressed=false.
        if compressed or is_zlib(body):
            return (yield from decode_compressed(body, version))
        if version >= VERSION_3_0_11 and (table := (yield from decode_incremental(body, previous))) is not None:
            return table
        return (yield from decode_json(body, version, unix_ms))
    except BodyError as error:
        raise RegistrationRefused(f"Failed to decode RegisterBrokerBody, {error}") from None


def _checksum(body: bytes) -> CooperativeTask[int]:
    """Return the CRC-32 of a body as brokers send it; a cooperative task."""
    view = memoryview(body)
    value = zlib.crc32(view[:_CHECKSUM_BYTES])
    for at in range(_CHECKSUM_BYTES, len(body), _CHECKSUM_BYTES):
        yield
        value = zlib.crc32(view[at : at + _CHECKSUM_BYTES], value)
    return value & 0x7FFFFFFF
