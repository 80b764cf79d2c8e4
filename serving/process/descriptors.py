"""How many files this process may have open, and so how many peers."""

import contextlib
import resource
import socket
from typing import Final

from serving.process.not_started import NotStarted

#: Files that are not connections of peers: the HTTP side's connections, requests of ours, stores and logs.
_FILES_RESERVED: Final = 512
_FILES_WANTED: Final = 10_240


def raised_file_limit() -> int:
    """Let this process open as many files as the system allows it, as Java does, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS says "no limit" and then refuses it.
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, _FILES_WANTED)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def room_for_connections(limit: int) -> int:
    """Return how many connections leave room for other files."""
    return max(1, limit - _FILES_RESERVED)


def bound_http_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port that is taken ends the start before anybody is served."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise NotStarted(f"cannot listen on {host}:{port} for HTTP: {error.strerror or error}") from error
