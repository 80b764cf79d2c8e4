"""Who we are for brokers with ACL, and for which of them: from properties, the keys also from files."""

from pathlib import Path
from typing import Final

from remoting.protocol.named_addresses import named_addresses
from remoting.protocol.signing import Credentials, Signer
from serving.config.server_config import ServerConfig
from serving.process.not_started import NotStarted

#: The longest key that is taken from a file; whoever names a wrong file shall not fill the memory.
KEY_BYTES_MAX: Final = 4096

#: What a server is to be given.
PROPERTIES: Final = "brokerAccessKey and brokerSecretKey (or brokerAccessKeyPath and brokerSecretKeyPath)"

#: For whom requests are signed.
ADDRESSES: Final = "brokerAccessAddresses"


def signer_of(config: ServerConfig) -> Signer | None:
    """Return what signs requests of ours, None without keys; raises NotStarted for files that hold none."""
    credentials = credentials_of(config)
    if credentials is None:
        return None
    named = named_addresses(config.broker_access_addresses) or ()
    return Signer(credentials=credentials, named=named, verifies_all=config.verifies_brokers)


def credentials_of(config: ServerConfig) -> Credentials | None:
    """Return the keys of the configuration, None without; raises NotStarted for files that hold none."""
    access_key = config.broker_access_key or key_in(config.broker_access_key_path, "brokerAccessKeyPath")
    secret_key = config.broker_secret_key or key_in(config.broker_secret_key_path, "brokerSecretKeyPath")
    return Credentials(access_key, secret_key) if access_key and secret_key else None


def key_in(path: str, option: str) -> str:
    """Return the key that a file holds, without blanks and line ends around it; blank without a path.

    Raises NotStarted with the name of the option, never with what the file holds.
    """
    if not path:
        return ""
    try:
        with Path(path).expanduser().open("rb") as file:
            text = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise NotStarted(f"{option}: {path} cannot be read: {error.strerror or error}") from None
    try:
        key = text.decode().strip() if len(text) <= KEY_BYTES_MAX else ""
    except UnicodeDecodeError:
        key = ""
    if not key:
        raise NotStarted(f"{option}: {path} must hold a key: UTF-8 text of 1 to {KEY_BYTES_MAX} bytes") from None
    return key
