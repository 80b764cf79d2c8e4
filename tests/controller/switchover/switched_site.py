"""A set of three brokers under a controller without sockets, and what a test does while a switchover runs."""

import asyncio

from fakes.in_process_controller import CLUSTER, SET, at

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.sets.broker_set import BrokerSet
from controller.switchover.record import SwitchoverRequest
from store.store import ControllerMember

#: Generous: only waits that would never end end here.
WAIT_S = 30
END = 100
OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")


class SwitchedSet:
    """Brokers 1, 2 and 3, of which 1 leads; all logs end at the same offset until a test changes that."""

    #: A proxy checks roles while time passes.
    checks_roles = True

    def __init__(self, controller):
        self.controller = controller
        self.switchovers = controller.switchovers

    async def form(self):
        controller = self.controller
        await controller.a_set(1, 2, 3)
        controller.masters = {at(1)}
        controller.log_ends = {1: LogEnd(1, END, is_master=True), 2: LogEnd(1, END), 3: LogEnd(1, END)}
        await self.heartbeats()
        await controller.publish_roles()
        self.check_roles()
        return self

    def check_roles(self, host="10.9.0.1"):
        """Let a proxy check the role of the first master, as it does each 100 ms."""
        self.controller.roles.checkers.record(
            BrokerKey(SET, 1), host, RoleAnswer(RoleVerdict.HELD if self.is_held() else RoleVerdict.SERVES, 1)
        )

    async def heartbeats(self, *broker_ids):
        await self.controller.heartbeat(*(broker_ids or (1, 2, 3)), epoch=1, maxOffset=END)

    async def begin(self, **request):
        return await self.switchovers.begin(SET, SwitchoverRequest(**request))

    def end(self):
        """Let another controller lead: nothing goes on."""
        self.controller.group.follows(OTHER)

    @property
    def switchover(self):
        return self.switchovers.of_set(SET)

    @property
    def stored(self) -> BrokerSet:
        return self.controller.stored()

    def is_held(self):
        return self.controller.roles.holds.held_until_ms(SET, self.controller.clock.now_ms()) is not None

    async def until(self, *phases, step_ms=10):
        """Let time pass until the switchover is in one of these phases; masters that serve are confirmed meanwhile."""
        async with asyncio.timeout(WAIT_S):
            while self.switchover.phase not in phases:
                self.controller.clock.pass_ms(step_ms)
                if self.checks_roles:
                    self.check_roles()
                for change in self.controller.role_changes.take():
                    self.controller.roles.serving.role_changed(change)
                await asyncio.sleep(0.002)
        return self.switchover

    def serve(self, master):
        """Let a broker have changed to master, and all others to slaves."""
        self.controller.masters = {at(master)}
        ends = self.controller.log_ends
        self.controller.log_ends = {i: LogEnd(end.epoch, end.max_offset, i == master) for i, end in ends.items()}

    async def elect(self, broker_id):
        """Let mqadmin elect a broker."""
        fields = {"cluster": CLUSTER, "designate": True}
        assert (await self.controller.elect(broker_id, **fields)).code == 0
