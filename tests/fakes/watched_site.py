"""A controller in this process whose autoscaler looks at scripted brokers whenever a test lets time pass."""

from contextlib import asynccontextmanager

from controller.scaling.watching.service import SLOTS
from fakes.admin_token import ADMIN_TOKEN
from fakes.in_process_controller import InProcessController
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site

LOOK_MS = 15_000
#: A look that finds something, and those until it has held for the shortest window.
LOOKS_UNTIL_DECIDED = 4
POLICY = {"topic": TOPIC, "min": 4, "max": 64, "window": "15s", "behind": "5s", "cooldown": "1m"}


class WatchedSite:
    """One topic with four queues on one broker; `clients` consumers, of which four hold a queue each."""

    def __init__(self, controller, site):
        self.controller = controller
        self.site = site
        (self.broker,) = site.brokers
        self.autoscaler = controller.autoscaler
        self.looks = 0

    @property
    def clock(self):
        return self.controller.clock

    async def put(self, *policies):
        status, body = await self.request("PUT", "policies", {"policy": list(policies)})
        assert status == 200, body

    def mode(self, mode):
        return POLICY | {"mode": mode}

    def consumers(self, clients):
        """Let so many clients be online; the first four hold a queue each."""
        names = [f"c{number}" for number in range(clients)]
        self.broker.join(GROUP, *names)
        for number, name in enumerate(names):
            self.broker.run(name, {number: (0, 0)} if number < 4 else {})

    async def look(self, times=1, *, written=3000, consumed=1500):
        """Let time pass, in which messages come into each queue and are consumed, and look at the topic."""
        for _ in range(times):
            self.looks += 1
            self.clock.pass_ms(LOOK_MS)
            queues = range(self.broker.topic["writeQueueNums"])
            self.broker.ends = dict.fromkeys(queues, (0, self.looks * written))
            self.broker.offsets[GROUP] = dict.fromkeys(queues, self.looks * consumed)
            await self.round()

    async def round(self):
        if await self.autoscaler.prepare():
            for slot in range(SLOTS):
                await self.autoscaler.look(slot)
            self.autoscaler._report()
        await self.controller.done()

    def decision(self):
        return next(iter(self.autoscaler.decisions()), None)

    def outcome(self):
        return self.decision().outcome.value

    def operations(self):
        return self.controller.scaling.operations.under_way()

    async def request(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        return await self.controller.get(f"/v1/scaling/{path}", method, headers=headers, json=body)

    def events(self, name):
        return self.controller.events(name)


@asynccontextmanager
async def watched_site(folder, policy_file="", **settings):
    async with (
        scaling_site(ScaledBroker(), name_servers=1) as site,
        InProcessController(folder, namesrv_addr=";".join(site.addresses), **settings) as controller,
    ):
        controller.autoscaler = controller.new_autoscaler(policy_file)
        await controller.serve_http()
        watched = WatchedSite(controller, site)
        watched.consumers(8)
        yield watched
