"""Tells which requests of ours brokers with ACL do not take, and what to do about it."""

from serving.logs import Logs
from serving.server_events import BROKER_REQUEST_DENIED


class Denials:
    """Tells which requests brokers do not take, and what to do about it."""

    def __init__(self, logs: Logs, names: str, *, is_signed: bool) -> None:
        """Tell it with the `names` of what an operator sets."""
        self._logs = logs
        self._is_signed = is_signed
        self._advice = (
            f"{names} must be a user that this broker knows, with its password, and that may do everything"
            if is_signed
            else f"set {names} to a user of the brokers that may do everything, and its password"
        )

    def denied(self, address: str, request_code: int, remark: str) -> None:
        """Note a request that the broker at an address does not take."""
        self._logs.write(
            BROKER_REQUEST_DENIED,
            addr=address,
            request_code=request_code,
            signed=self._is_signed,
            error=remark.strip(),
            advice=self._advice,
        )
