"""Probes brokers: whether a suspect is alive, and whether a broker that sends heartbeats can be reached at its port.

GET_BROKER_EPOCH_CACHE (1007) is a small request that any broker in controller mode answers.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from controller.failover.events import BrokerProbed, CheckReachability, ProbeBroker
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ANSWER_MS, ProbeOutcome
from remoting.client import Requester
from remoting.protocol.codec import decode_body
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, ConnectionRefused, InvokeError, OutOfResources
from remoting.protocol.shapes.broker import EpochCache
from serving.telemetry.events import Emit

#: Starts a background task; its failure is reported and ends nothing else.
Starter = Callable[[Coroutine[Any, Any, None]], asyncio.Task[bool]]
#: Takes a broker, the address at which it answered, and the other end of that connection; blank if unknown.
Reached = Callable[[BrokerKey, str, str], None]


class BrokerProber:
    """Sends each probe over a new connection, in a task of its own."""

    def __init__(self, start: Starter, client: Requester, emit: Emit, reached: Reached) -> None:
        self._start, self._client, self._emit, self._reached = start, client, emit, reached

    def probe(self, effect: ProbeBroker) -> None:
        self._start(self._probe(effect))

    def check_reachability(self, effect: CheckReachability) -> None:
        """Probe a broker that sends heartbeats; reported only if it answers."""
        self._start(self._check_reachability(effect))

    async def _probe(self, effect: ProbeBroker) -> None:
        try:
            outcome, peer = await self._outcome(effect.probe.key, effect.address, effect.probe.timeout_ms)
        except Exception:
            # The detector waits for an outcome; a failure of our own proves nothing about the broker.
            effect.report(effect.probe.key, ProbeOutcome.NOT_PROBED, "")
            raise
        effect.report(effect.probe.key, outcome, peer)

    async def _check_reachability(self, effect: CheckReachability) -> None:
        outcome, peer = await self._outcome(effect.key, effect.address, ANSWER_MS)
        if outcome is ProbeOutcome.ANSWERED:
            self._reached(effect.key, effect.address, peer)

    async def _outcome(self, key: BrokerKey, address: str, timeout_ms: int) -> tuple[ProbeOutcome, str]:
        """Send a probe; return its outcome and the other end of the connection, blank without an answer."""
        peer = ""
        request = RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE)
        try:
            response, peer = await self._client.invoke_on_new_connection(address, request, timeout_ms)
            outcome = ProbeOutcome.ANOTHER if _is_of_another(key, response) else ProbeOutcome.ANSWERED
        except ConnectionRefused:
            outcome = ProbeOutcome.REFUSED
        except OutOfResources:
            outcome = ProbeOutcome.NOT_PROBED
        except InvokeError:
            outcome = ProbeOutcome.NO_ANSWER
        self._emit(BrokerProbed(outcome=outcome))
        return outcome, peer


def _is_of_another(key: BrokerKey, response: RemotingCommand) -> bool:
    """Return whether another broker has certainly answered. Not all responses name their broker."""
    if response.code != ResponseCode.SUCCESS or not response.body:
        return False
    try:
        reported = decode_body(EpochCache, response.body)
    except BodyError:
        return False
    if reported.broker_name is not None and reported.broker_name != key.broker_name:
        return True
    # A master reports 0, and one that starts -1.
    return reported.broker_id is not None and reported.broker_id > 0 and reported.broker_id != key.broker_id
