"""aiohttp without the certificates of its client.

aiohttp reads the machine's list of certificate authorities twice when it is imported, for HTTPS requests that nothing
here makes; that is a third of what its import costs. Everything of aiohttp is taken from here, so that it is never
imported before.
"""

import os

_CERT_FILE = "SSL_CERT_FILE"
_given = os.environ.get(_CERT_FILE)
# OpenSSL looks here instead of at the machine's list.
os.environ[_CERT_FILE] = os.devnull

from aiohttp import hdrs, web  # noqa: E402
from aiohttp.http_exceptions import HttpProcessingError  # noqa: E402

if _given is None:
    del os.environ[_CERT_FILE]
else:
    os.environ[_CERT_FILE] = _given

__all__ = ["HttpProcessingError", "hdrs", "web"]
