"""Waits until a new master serves, before its run begins, so that no other broker waits for it. The edge."""

import asyncio
from collections.abc import Callable

from controller.offsets.guard.log_facts import SavedMoment
from controller.offsets.guard.master_queries import MasterQueries, NoMaster, NotServing
from remoting.protocol.errors import BodyError, InvokeError, Refused


async def until_served(
    queries: MasterQueries, moment: SavedMoment, may_wait: Callable[[], bool], pause_s: Callable[[], float]
) -> None:
    """Return once a broker serves as master and all that it has stored is in its queues.

    Also once it answers what a run is to report. Looks again after `pause_s`. Raises NotServing, with what the broker
    answered last, once `may_wait` is false.
    """
    while True:
        try:
            await queries.log(moment)
        except NotServing:
            if not may_wait():
                raise
        except (NoMaster, Refused, InvokeError, BodyError):
            return
        else:
            return
        await asyncio.sleep(pause_s())
