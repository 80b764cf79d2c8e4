"""Connections to the HTTP side of our servers. The edge."""

import http.client
import ssl
from urllib.parse import urlsplit

from rmq.site.settings import SiteSettings


def connection_to(settings: SiteSettings, url: str, timeout_s: float) -> http.client.HTTPConnection:
    """Return a connection, not opened yet; raises ValueError for what is no URL. Each wait on it has the timeout."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, port, timeout=timeout_s)
