"""Anybody may read lags: they hold up no restore."""

import asyncio
from types import SimpleNamespace

from fakes.answering_peer import NOTHING
from restore_site import AFTER, a_broker, outcomes, restore_site

from controller.offsets.app.restoring import Restoring
from controller.offsets.restore.lag_reader import LagRequest
from controller.offsets.restore.requests import RestoreRequest, RestoreScope
from controller.offsets.restore.values import RestoreOptions

TOPICS = 40


async def test_lags_that_wait_for_a_broker_hold_up_no_restore(tmp_path):
    broker = a_broker(billing={0: 10})
    broker.offsets |= {f"slow-{number}@readers": {0: 1} for number in range(TOPICS)}
    waiting, seen, taken = [], [], asyncio.Event()

    def answer(code, fields):
        if fields.get("topic", "").startswith("slow-"):
            waiting.append(code)
            if len(waiting) == 4:
                taken.set()
            return NOTHING
        if fields.get("topic") == "orders":
            seen.append(len(waiting))
        return broker(code, fields)

    broker.peer.answer = answer
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        serving = SimpleNamespace(role=SimpleNamespace(is_serving=True))
        brokers = Restoring(serving, site.kept, site.clock, site).brokers(site.client, site.followed, site.mirror)
        request = LagRequest("readers", None, {})
        lags = [asyncio.ensure_future(brokers.lags.read(site.followed.sets.values(), request)) for _ in range(2)]
        await taken.wait()

        scope = RestoreScope(site.followed.sets["broker-a"].cluster, "billing")
        done = await brokers.restorer.restore(
            RestoreRequest(writer="alice", scope=scope, moment=AFTER, options=RestoreOptions(), is_dry_run=False)
        )

        for each in lags:
            each.cancel()
        await asyncio.gather(*lags, return_exceptions=True)

    assert outcomes(done) == {("billing", 0): ("restored", 10, 50)}
    # Lags that had all turns would have got many more before.
    assert seen[0] < 16
