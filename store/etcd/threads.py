"""The way from the event loop to etcd: calls wait in threads, each until its own deadline, and each is reported."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from remoting.clock import Clock
from serving.telemetry.events import Emit
from store.etcd.client import CALL_MS, EtcdClient, EtcdConnection, Metadata
from store.events import StoreCalled, StoreCallsAnswered, StoreCallsFailing
from store.store import Deposed, EntryMoved, OutcomeUnknown, StoreError

_RESULTS: Final = ((EntryMoved, "moved"), (Deposed, "deposed"), (OutcomeUnknown, "unknown"))
#: The others are answers too.
_NO_ANSWER: Final = ("unknown", "failed")

Result = TypeVar("Result")


class CallThreads:
    def __init__(self, number: int, clock: Clock, emit: Emit) -> None:
        self._pool = ThreadPoolExecutor(max_workers=number, thread_name_prefix="etcd-call")
        self._clock, self._emit = clock, emit
        #: Since when calls of a kind fail (monotonic ms).
        self._failing: dict[str, int] = {}

    async def run(self, kind: str, work: Callable[[int], Result], *, within_ms: int = CALL_MS) -> Result:
        """Return what `work` returns, called in a thread with its deadline in monotonic ms; raises StoreError."""
        begun_ms = self._clock.now_ms()
        result = "unknown"  # who waited may give up
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, work, begun_ms + within_ms)
        except StoreError as error:
            result = next((name for kind_, name in _RESULTS if isinstance(error, kind_)), "failed")
            if result in _NO_ANSWER and kind not in self._failing:
                self._failing[kind] = begun_ms
                self._emit(StoreCallsFailing(operation=kind, error=str(error)))
            raise
        else:
            result = "ok"
            if (since_ms := self._failing.pop(kind, None)) is not None:
                self._emit(StoreCallsAnswered(operation=kind, silent_ms=self._clock.now_ms() - since_ms))
            return answer
        finally:
            seconds = (self._clock.now_ms() - begun_ms) / 1000
            self._emit(StoreCalled(operation=kind, result=result, seconds=seconds))

    async def request(
        self,
        client: EtcdClient,
        kind: str,
        call: Callable[[EtcdConnection, float, Metadata], Result],
        *,
        within_ms: int = CALL_MS,
        is_repeatable: bool = True,
    ) -> Result:
        """Return what a client's call returns, as `run`."""
        return await self.run(
            kind,
            lambda deadline_ms: client.request(call, deadline_ms=deadline_ms, is_repeatable=is_repeatable),
            within_ms=within_ms,
        )

    def close(self) -> None:
        """Take no more calls; the threads end when those under way do."""
        self._pool.shutdown(wait=False)
