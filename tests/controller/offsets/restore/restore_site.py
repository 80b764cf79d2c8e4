"""A restorer with brokers on loopback, and a mirror whose readings a test makes."""

from contextlib import asynccontextmanager

from fakes.clock import FakeClock
from fakes.offset_broker import BOOT_MS, CLUSTER, OffsetBroker, offset_brokers
from mirror_builders import a_reading

from controller.offsets.entry_keys import EntryKey, parse_entry_key
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MomentNotKept, PastOffsets
from controller.offsets.mirror.regressions import KnownResets, RegressionLog, SetQueue
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.operation_file import OperationFile
from controller.offsets.restore.requests import RestoreRequest, RestoreScope
from controller.offsets.restore.restorer import RestoreParts, Restorer
from controller.offsets.restore.values import RestoreOptions
from controller.offsets.topology.values import FollowedSet, SetMaster
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import RemotingClient
from remoting.clock import SystemClock

#: The broker was master long before it.
AFTER = BOOT_MS + 3_600_000
#: It was started after it.
BEFORE = BOOT_MS - 60_000


def a_broker(name="broker-a", *, queues=2, end=100, **offsets):
    broker = OffsetBroker(name)
    broker.topics["orders"] = dict.fromkeys(range(queues), (0, end))
    broker.offsets = {f"orders@{group}": dict(queues) for group, queues in offsets.items()}
    return broker


def a_queue(queue_id=0, *, topic="orders", group="billing", broker="broker-a"):
    return SetQueue(SetName(CLUSTER, broker), EntryKey(topic, group), queue_id)


class ReadMoments:
    """What a mirror has read: set and moment -> offsets, as a test gives them."""

    def __init__(self):
        self.resets = KnownResets()
        self.regressions = RegressionLog()
        #: Broker name -> {"topic@group": {queue id: offset}}.
        self.by_set = {}
        #: What the newest reading of each set has; None: there is none.
        self.newest = None
        #: Moments before it are not kept.
        self.kept_since = 0
        #: When the offsets of all moments were read; None: at the moment itself.
        self.read_unix_ms = None

    def statuses(self):
        return []

    def saved(self, set_name):
        mirror = BrokerMirror(set_name)
        if self.newest is not None:
            mirror.take(a_reading(self.newest))
        return mirror.saved

    def saved_before(self, _, __):
        return ()

    async def at(self, set_name, unix_ms):
        if unix_ms < self.kept_since or set_name.broker_name not in self.by_set:
            raise MomentNotKept(set_name, unix_ms, kept_since_unix_ms=self.kept_since)
        table = self.by_set[set_name.broker_name]
        read_unix_ms = unix_ms if self.read_unix_ms is None else self.read_unix_ms
        by_entry = {parse_entry_key(key): queues for key, queues in table.items()}
        return PastOffsets(unix_ms=read_unix_ms, by_entry=by_entry)


class Followed:
    """The masters of broker sets."""

    def __init__(self, brokers):
        self.sets = {
            each.name: FollowedSet(
                CLUSTER, each.name, SetMaster(CLUSTER, each.name, 0, each.address), elected_unix_ms=each.boot_ms
            )
            for each in brokers
        }
        self.lost = set()

    def is_master(self, master):
        return master.broker_name not in self.lost


class RestoreSiteOfTest:
    """Everything together."""

    def __init__(self, brokers, client, folder):
        self.brokers, self.client = brokers, client
        self.clock = FakeClock()
        self.mirror = ReadMoments()
        self.followed = Followed(brokers)
        self.kept = KeptOperations(OperationFile(folder, self.clock), lambda: "offsets-1:9883")
        self.admin = AdminClient(client, AdminLimits(timeout_ms=1000, requests_max=128, requests_per_peer_max=16))
        self.began, self.ended, self.not_kept = [], [], []
        self.serves = True
        self.restorer = Restorer(
            RestoreParts(
                admin=self.admin,
                followed=self.followed,
                mirrored=self.mirror,
                kept=self.kept,
                clock=self.clock,
                serves=lambda: self.serves,
                observer=self,
            )
        )

    def follow(self, followed):
        self.followed.sets[followed.broker_name] = followed

    def change_with(self, broker, code, change):
        """Let `change` happen while a broker answers requests of a code."""

        def answer(requested, fields):
            if requested == code:
                change()
            return broker(requested, fields)

        broker.peer.answer = answer

    def restore_began(self, operation):
        self.began.append(operation)

    def restored(self, operation):
        self.ended.append(operation)

    def operation_not_kept(self, kind, error):
        self.not_kept.append((kind, error))

    async def restore(self, moment, *, dry=False, back=False, unproved=False, pulls=False, **scope):
        scope = RestoreScope(CLUSTER, scope.get("group"), scope.get("topic"), scope.get("broker"))
        options = RestoreOptions(back, unproved, pulls)
        return await self.restorer.restore(
            RestoreRequest(writer="alice", scope=scope, moment=moment, options=options, is_dry_run=dry)
        )

    async def undo(self, operation_id, *, force=False, unproved=False, pulls=False, dry=False):
        operation, options = await self.kept.find(operation_id), RestoreOptions(allow_unproved=unproved, pulls=pulls)
        return await self.restorer.undo(operation, "bob", options, is_forced=force, is_dry_run=dry)


@asynccontextmanager
async def restore_site(folder, *brokers):
    client = RemotingClient(SystemClock())
    async with offset_brokers(*brokers):
        site = RestoreSiteOfTest(brokers, client, folder)
        try:
            yield site
        finally:
            await site.kept.close()
            await client.close()


def outcomes(done):
    return {
        (each.queue.key.group, each.queue.queue_id): (each.status.value, each.old, each.new) for each in done.queues
    }
