"""A proxy that leads clients to the master by role checks, as HAProxy does with `rmq haproxy-config`."""

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.verdict import DOWN, RoleVerdict

#: Controllers take who checks less often for gone.
CHECK_MS = 400
HOST = "10.0.7.7"


class RoleProxy:
    """Clients of one set send to brokers that are up; in doubt nothing changes."""

    def __init__(self, of_set):
        self.set, self.world = of_set, of_set.world
        self.up = set()
        of_set.proxy = self
        self.world.every(CHECK_MS, CHECK_MS, self.check)

    def check(self):
        leading = (each for each in self.world.controllers if each.is_up and not each.is_frozen and each.leads)
        controller = next(leading, None)
        for broker in self.set.brokers if controller is not None else ():
            if broker.id is not None:
                controller.receive(self.asked, controller, BrokerKey(self.set.name, broker.id))

    def asked(self, controller, key):
        """Check as `RoleCheckPort` lets it, and obey."""
        roles, broker_id = controller.engine.roles, key.broker_id
        answer = roles.answer(key)
        roles.checkers.record(key, HOST, answer)
        if answer.verdict is RoleVerdict.SERVES:
            later = [epoch for epoch in self.set.masters if epoch > answer.master_epoch]
            if later and self.world.is_kept:
                self.set.fail("clients are led to %d of epoch %d, in %d another leads", broker_id, answer[1], later[-1])
            self.up.add(broker_id)
        elif answer.verdict in DOWN:
            self.up.discard(broker_id)

    def what_is_ill(self):
        return None if self.up == {self.set.entry.broker_set.master} else f"clients are led to {sorted(self.up)}"
