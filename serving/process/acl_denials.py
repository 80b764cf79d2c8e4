"""Tells which requests of ours brokers with ACL do not take or cannot, and what to do about it."""

from typing import Final

import msgspec

from remoting.client import Denial
from serving.logging.logs import Logs
from serving.logging.server_events import BROKER_REQUEST_DENIED, BROKER_REQUEST_NOT_SIGNED
from serving.metrics.counters import Tally

#: Addresses whose unsigned requests were told; the oldest are forgotten, and told again.
ADDRESSES_MAX: Final = 4096


class Names(msgspec.Struct, frozen=True):
    """How an operator sets what requests are signed with, and for whom."""

    keys: str
    addresses: str


class Denials:
    """Tells which requests brokers do not take, and what to do about it."""

    def __init__(self, logs: Logs, names: Names, *, has_keys: bool) -> None:
        """Tell it with the `names` of what an operator sets."""
        self._logs = logs
        self._if_signed = f"{names.keys} must be a user that this broker knows, with its password and its rights"
        self._otherwise = (
            f"name this address or its network in {names.addresses}, if it is a broker of yours"
            if has_keys
            else f"set {names.keys} to a user of the brokers with its password, and {names.addresses} to their networks"
        )

    def denied(self, denial: Denial) -> None:
        """Note a request that a broker does not take."""
        self._logs.write(
            BROKER_REQUEST_DENIED,
            addr=denial.address,
            request_code=denial.request_code,
            signed=denial.is_signed,
            error=denial.remark.strip(),
            advice=self._if_signed if denial.is_signed else self._otherwise,
        )


class UnsignedRequests:
    """Counts the requests that go unsigned to who is not named, and tells of each address once."""

    def __init__(self, logs: Logs, names: Names, counts: Tally, no_brokers: frozenset[str] = frozenset()) -> None:
        """Tell it with the `names` of what an operator sets; `no_brokers` need no signature."""
        self._logs = logs
        self._advice = f"name it or its network in {names.addresses}, if it is a broker of yours that has ACL"
        self._counts = counts
        self._no_brokers = no_brokers
        #: Keys only, in the order in which they came.
        self._told: dict[str, None] = {}

    def unsigned(self, address: str) -> None:
        """Note a request that goes unsigned to an address."""
        if address in self._no_brokers:
            return
        self._counts.add(())
        if address in self._told:
            return
        if len(self._told) >= ADDRESSES_MAX:
            del self._told[next(iter(self._told))]
        self._told[address] = None
        self._logs.write(BROKER_REQUEST_NOT_SIGNED, addr=address, advice=self._advice)
