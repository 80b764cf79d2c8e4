"""The servers of one site, as a command reaches them. The edge: it has the one connection to each."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from remoting.admin.admin_request import AdminRequest, left_out
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.controllers import ReportedBrokerSet, ReportedMetadata, broker_sets_of, controller_metadata
from remoting.admin.routes import ClusterBrokers, registered_and_away
from remoting.background_tasks import all_results, start_task
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import InvokeError, InvokeTimeout, Refused, RemotingError
from rmq.failures import CommandFailed, NoneNamed, NotReachable, PartlyDone, failure_of, failure_of_all, sentence_of
from rmq.site.access import signer_of, tls_context_of
from rmq.site.brokers import merged, stored_away
from rmq.site.settings import SiteSettings

Found = TypeVar("Found")
Key = TypeVar("Key")

#: Once one server has answered, its peers have this part of the timeout: one that hangs does not hold up the others.
_PEERS: Final = 0.3


class Answered(NamedTuple, Generic[Found]):
    """What one server answered: a result, or the error instead of it."""

    address: str
    found: Found | None
    error: RemotingError | None

    @property
    def result(self) -> Found:
        """The result; only where there is no error."""
        assert self.error is None, "an answer with an error has no result"
        # None is a result too, of requests that can answer it.
        return self.found  # type: ignore[return-value]  # as above


async def at_once(works: Iterable[Coroutine[Any, Any, Found]]) -> list[Found]:
    """Return the results of works that are done at the same time, in their order; raises the first failure."""
    try:
        return await all_results(works)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def both(one: Coroutine[Any, Any, Found], other: Coroutine[Any, Any, Key]) -> tuple[Found, Key]:
    """Return the results of two works that are done at the same time; raises the first failure."""
    works: list[Coroutine[Any, Any, Any]] = [one, other]
    first, second = await at_once(works)
    return first, second


class Site:
    def __init__(self, settings: SiteSettings, *, is_change: bool = False) -> None:
        """Prepare; nothing is connected yet. Raises WrongUse for keys or certificates that cannot be used.

        A change is decided by what brokers answer: these answers are read whole or not at all.
        """
        self.settings = settings
        self._is_change = is_change
        #: Servers of whose answers odd rows were left out, with a sentence that names some.
        self.odd: dict[str, str] = {}
        #: NameServers and controllers without which a view was read, with the reason.
        self.silent: dict[str, str] = {}
        self._short_s = settings.timeout_s * _PEERS
        client = RemotingClient(SystemClock(), tls=tls_context_of(settings), signer=signer_of(settings))
        self._client = client
        self._admin = AdminClient(client, AdminLimits(timeout_ms=round(settings.timeout_s * 1000)))

    async def close(self) -> None:
        await self._client.close()

    async def call(self, address: str, request: AdminRequest[Found]) -> Found:
        """Return what one server answers; raises CommandFailed."""
        answer = await self.answer_of(address, request)
        if answer.error is not None:
            raise failure_of(answer.error, address)
        return answer.result

    async def answer_of(self, address: str, request: AdminRequest[Found]) -> Answered[Found]:
        """Return what one server answers, or its error."""
        odd_rows: list[str] | None = None if self._is_change and address not in self.settings.namesrv else []
        try:
            found = await self._admin.call(address, request, odd_rows=odd_rows)
        except RemotingError as error:
            return Answered(address, None, error)
        if odd_rows:
            self.odd[address] = left_out(odd_rows)
        return Answered(address, found, None)

    async def answers(self, addresses: Iterable[str], request: AdminRequest[Found]) -> list[Answered[Found]]:
        """Return what each of these answers to the same request, in their order; 32 requests are under way at most."""
        return await self.answers_to((each, request) for each in addresses)

    async def answers_to(self, requests: Iterable[tuple[str, AdminRequest[Found]]]) -> list[Answered[Found]]:
        return await at_once(self.answer_of(address, request) for address, request in requests)

    async def peer_answers(self, addresses: Iterable[str], request: AdminRequest[Found]) -> list[Answered[Found]]:
        """Return the same of peers: one that is still silent a short while after another one answered has failed."""
        works = {address: start_task(self.answer_of(address, request)) for address in addresses}
        pending, is_answered = set(works.values()), False
        try:
            while pending and not is_answered:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                is_answered = any(not isinstance(each.result().error, InvokeError) for each in done)
            if pending:
                _, pending = await asyncio.wait(pending, timeout=self._short_s)
        finally:
            for each in pending:
                each.cancel()
        return [self.unanswered(at) if work in pending else work.result() for at, work in works.items()]

    def unanswered(self, address: str) -> Answered[Any]:
        """Return that a server was silent for longer than its peers."""
        return Answered(address, None, InvokeTimeout(address, round(self._short_s * 1000)))

    async def beside(
        self, one: Coroutine[Any, Any, Found], other: Coroutine[Any, Any, Key], instead: Key
    ) -> tuple[Found, Key]:
        """Return the results of both; `instead` of the other one where that takes much longer than the first."""
        reading = start_task(other)
        try:
            found = await one
            await asyncio.wait([reading], timeout=self._short_s)
            return found, reading.result() if reading.done() else instead
        finally:
            reading.cancel()

    async def first_answer(self, request: AdminRequest[Found]) -> Answered[Found]:
        """Return what the first NameServer answers that gives a result; raises CommandFailed if none does."""
        answers = await self.at_name_servers(request)
        return next(each for each in answers if each.error is None)

    async def at_name_servers(self, request: AdminRequest[Found]) -> list[Answered[Found]]:
        """Return what every NameServer answers; raises CommandFailed if none gives a result."""
        answers = await self.peer_answers(self.settings.namesrv, request)
        if all(each.error is not None for each in answers):
            raise self._with_advice(failure_of_all([(each.address, each.error) for each in answers if each.error]))
        return answers

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers, at least one; raises CommandFailed."""
        if not self.settings.controller:
            raise NoneNamed("controller", "--controller")
        return self.settings.controller

    @property
    def knows_controllers(self) -> bool:
        """Whether the controllers are of this site: beside NameServers that are named, the default one may not be."""
        return "controller" not in self.settings.defaults or "namesrv" in self.settings.defaults

    async def cluster(self) -> ClusterBrokers:
        """Return all brokers and the sets that are away, as NameServers know them together; raises CommandFailed.

        A set that controllers of ours have stored and nobody lists is away too: Java NameServers remember none, and
        one of ours has forgotten them with its disk.
        """
        asked = self.at_name_servers(registered_and_away())
        answers, stored = await self.beside(asked, self._stored_sets(), "no controller answers")
        self.silent |= {each.address: sentence_of(each.error) for each in answers if each.error is not None}
        if isinstance(stored, str):
            if "controller" not in self.settings.defaults:
                self.silent[", ".join(self.settings.controller)] = stored
            stored = {}
        known = merged([each.result for each in answers if each.error is None])
        return replace(known, away=stored_away(known, stored))

    async def leading_controller(self) -> str:
        """Return the address of the leading controller, as soon as one says it; raises CommandFailed."""
        answers: list[Answered[ReportedMetadata]] = []
        pending = {start_task(self.answer_of(each, controller_metadata())) for each in self.controllers}
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                answers += [each.result() for each in done]
                if leader := leader_in(answers):
                    return leader
        finally:
            for each in pending:
                each.cancel()
        failed = [(each.address, each.error) for each in answers if each.error is not None]
        raise failure_of_all(failed) if len(failed) == len(answers) else NotReachable("no controller leads now")

    async def stored_sets(self, leader: str) -> Mapping[str, ReportedBrokerSet] | None:
        """Return all broker sets that the leading controller has stored; None from Java's, which lists none.

        Raises CommandFailed.
        """
        answer = await self.answer_of(leader, broker_sets_of())
        if answer.error is None:
            return answer.result
        if isinstance(answer.error, Refused) and answer.error.code == ResponseCode.SYSTEM_ERROR:
            return None
        raise failure_of(answer.error, leader)

    async def _stored_sets(self) -> Mapping[str, ReportedBrokerSet] | str:
        """Return what controllers have stored, or why that is not known."""
        if not self.knows_controllers or not self.settings.controller:
            return {}
        try:
            return await self.stored_sets(await self.leading_controller()) or {}
        except CommandFailed as failure:
            return str(failure)

    async def named_sets(self, leader: str, names: Sequence[str]) -> Mapping[str, ReportedBrokerSet]:
        """Return the broker sets of these names that the leading controller knows; raises CommandFailed."""
        return await self.call(leader, broker_sets_of(names)) if names else {}

    def _with_advice(self, failure: CommandFailed) -> CommandFailed:
        if isinstance(failure, NotReachable) and "namesrv" in self.settings.defaults:
            return NotReachable(f"{failure}; give your NameServers with --namesrv, NAMESRV_ADDR or a profile")
        return failure


def leader_in(answers: Sequence[Answered[ReportedMetadata]]) -> str | None:
    """Return the address of the controller that leads, as the first one says that knows."""
    named = (each.result.controller_leader_address for each in answers if each.error is None)
    return next(filter(None, named), None)


def check_complete(answers: Sequence[Answered[Found]], what: str) -> None:
    """Raise PartlyDone if some of these have failed, and the failure of all if none has succeeded."""
    failed = [(each.address, each.error) for each in answers if each.error is not None]
    if not failed:
        return
    if len(failed) == len(answers):
        raise failure_of_all(failed)
    raise PartlyDone(f"{len(failed)} of {len(answers)} {what} did not answer: {', '.join(each for each, _ in failed)}")


def check_requests(answers: Sequence[Answered[Any]]) -> None:
    """Raise PartlyDone if some of these have failed, several requests to one server, and the failure if all have."""
    failed = {each.address: each.error for each in answers if each.error is not None}
    if not failed:
        return
    if all(each.error is not None for each in answers):
        raise failure_of_all(list(failed.items()))
    raise PartlyDone("; ".join(f"{address}: {sentence_of(error)}" for address, error in failed.items()))


def grouped(items: Iterable[Found], key: Callable[[Found], Key]) -> dict[Key, list[Found]]:
    groups: dict[Key, list[Found]] = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return groups
