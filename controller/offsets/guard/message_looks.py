"""Looks at messages of a broker until a plan needs no more. The edge."""

import asyncio

from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.guard.plan import GuardPlan, MessageLook
from remoting.background_tasks import all_results
from remoting.protocol.errors import BodyError, InvokeError, Refused


async def look_at_all(plan: GuardPlan, queries: MasterQueries, at_once: int) -> None:
    """Do all looks of a plan, `at_once` at a time. A queue that the broker does not show keeps no other one waiting."""
    answered = asyncio.Event()

    async def worker() -> None:
        while not plan.is_complete:
            if looks := plan.looks(1):
                await _look(plan, queries, looks[0])
                answered.set()
            elif not plan.is_complete:
                # All that are left are under way, and an answer may lead to more.
                answered.clear()
                await answered.wait()
        answered.set()

    await all_results(worker() for _ in range(at_once))


async def _look(plan: GuardPlan, queries: MasterQueries, look: MessageLook) -> None:
    try:
        if (unix_ms := plan.hint_ms(look)) is not None:
            look = plan.hinted(look, await queries.first_since(look, unix_ms))
        plan.looked(look, await queries.look(look, needs_store_time=plan.needs_store_time))
    except (Refused, InvokeError, BodyError):
        plan.unreadable(look)
