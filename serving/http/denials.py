"""Counts and logs requests that would change something, from somebody who may not send them."""

from aiohttp import web

from serving.http.admin_access import AdminDenied
from serving.http.request_ends import peer_address
from serving.logging.logs import Logs
from serving.logging.server_events import HTTP_ADMIN_DENIED
from serving.metrics.server_counters import ServerCounters


def record_denial(request: web.Request, denied: AdminDenied, counters: ServerCounters, logs: Logs) -> None:
    """Count a denied request by its reason, and log who sent it; limited as all log lines are."""
    counters.http_admin_requests_denied.add((denied.reason,))
    about = {"peer": peer_address(request), "method": request.method, "path": request.path}
    logs.write(HTTP_ADMIN_DENIED, **about, reason=denied.reason)
