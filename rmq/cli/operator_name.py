"""Who an operator is, as servers write it down. The edge: it reads the system."""

import getpass
import socket
from typing import Final

#: What servers take of it.
_CHARACTERS_MAX: Final = 255


def operator_name() -> str:
    """Return the user and the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under an id that has no name.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:_CHARACTERS_MAX]
