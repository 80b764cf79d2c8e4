"""Counts and logs requests that would change something, from somebody who may not send them."""

import asyncio

from aiohttp import web

from serving.http.admin_access import AdminDenied, TokenTries
from serving.http.request_ends import peer_address, peer_host
from serving.http.views import TooManyRequests
from serving.logging.logs import Logs
from serving.logging.server_events import HTTP_ADMIN_DENIED, TOKEN_TRIES_LIMITED
from serving.metrics.server_counters import ServerCounters


def record_denial(request: web.Request, denied: AdminDenied, counters: ServerCounters, logs: Logs) -> None:
    """Count a denied request by its reason, and log who sent it; limited as all log lines are."""
    counters.http_admin_requests_denied.add((denied.reason,))
    about = {"peer": peer_address(request), "method": request.method, "path": request.path}
    logs.write(HTTP_ADMIN_DENIED, **about, reason=denied.reason)


def begin_try(request: web.Request, tries: TokenTries, logs: Logs) -> None:
    """Count that somebody shows a token, before anything of it is looked at; raises TooManyRequests."""
    if wait_s := -(-tries.begin(peer_host(request), round(asyncio.get_running_loop().time() * 1000)) // 1000):
        logs.write(TOKEN_TRIES_LIMITED, peer=peer_address(request))
        raise TooManyRequests(f"Too many wrong tokens came from this address: none is checked for {wait_s} s.", wait_s)
