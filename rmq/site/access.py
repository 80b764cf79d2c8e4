"""The keys that requests are signed with, and the TLS context. The edge: it reads files."""

import os
import ssl
import stat
from pathlib import Path
from typing import Final

from remoting.protocol.signing import Credentials, Signer
from rmq.failures import WrongUse
from rmq.site.settings import SiteSettings

_FILE_BYTES_MAX: Final = 64 * 1024
_SEEN_BY_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
_QUOTES: Final = "\"'"


def signer_of(settings: SiteSettings) -> Signer | None:
    """Return what signs the requests to every peer, as mqadmin does; None without keys. Raises WrongUse."""
    if settings.access_key_file:
        credentials = keys_in(settings.access_key_file)
    elif settings.access_key or settings.secret_key:
        if not (settings.access_key and settings.secret_key):
            raise WrongUse("a profile needs both access_key and secret_key, or neither")
        credentials = Credentials(settings.access_key, settings.secret_key)
    else:
        return None
    return Signer(credentials=credentials, verifies_all=True)


def keys_in(path: str) -> Credentials:
    """Return the keys of a file with accessKey and secretKey: properties, or mqadmin's conf/tools.yml.

    Raises WrongUse, never with what the file holds, for a file that others may read too.
    """
    keys = _keys_in_text(private_text(Path(path).expanduser(), "--access-key-file"))
    if keys is None:
        raise WrongUse(f"--access-key-file: {path} must have lines accessKey=… and secretKey=…, as mqadmin's tools.yml")
    return keys


def keys_of(path: Path) -> Credentials | None:
    """Return the keys of a file that others may read, too; None without both of them. Raises WrongUse."""
    try:
        with path.open("rb") as file:
            return _keys_in_text(file.read(_FILE_BYTES_MAX).decode(errors="replace"))
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror or error}") from None


def _keys_in_text(text: str) -> Credentials | None:
    found: dict[str, str] = {}
    for line in text.splitlines():
        at = min((line.index(mark) for mark in ":=" if mark in line), default=-1)
        if at > 0:
            found[line[:at].strip()] = line[at + 1 :].strip().strip(_QUOTES)
    access_key, secret_key = found.get("accessKey", ""), found.get("secretKey", "")
    return Credentials(access_key, secret_key) if access_key and secret_key else None


def private_text(path: Path, what: str) -> str:
    """Return the text of a file with keys, which nobody else may read; raises WrongUse."""
    try:
        with path.open("rb") as file:
            check_private(path, file.fileno(), what)
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise WrongUse(f"{what}: {path} cannot be read: {error.strerror or error}") from None
    try:
        if len(text) > _FILE_BYTES_MAX:
            raise WrongUse(f"{what}: {path} has more than {_FILE_BYTES_MAX} bytes: it is not a file of keys")
        return text.decode()
    except UnicodeDecodeError:
        raise WrongUse(f"{what}: {path} is not UTF-8 text") from None


def check_private(path: Path, descriptor: int, what: str) -> None:
    """Raise WrongUse for an open file with keys that others may read."""
    if os.fstat(descriptor).st_mode & _SEEN_BY_OTHERS:
        raise WrongUse(f"{what}: others can read the keys in {path}: chmod 600 {path}")


def tls_context_of(settings: SiteSettings) -> ssl.SSLContext | None:
    """Return the context of connections, None for plain ones; raises WrongUse."""
    if not settings.uses_tls:
        return None
    from remoting.transport.tls import TlsError, TlsSettings, client_context  # noqa: PLC0415  # 10 ms

    tls = TlsSettings(
        test_mode_enable=False,
        client_auth_server=bool(settings.tls_ca),
        client_trust_cert_path=settings.tls_ca,
        client_cert_path=settings.tls_cert,
        client_key_path=settings.tls_key,
    )
    try:
        return client_context(tls)
    except TlsError as error:
        raise WrongUse(f"TLS: {error.path}: {error.reason}") from None
