"""A lone broker that loses its disk, comes back with an older one, or whose offsets an operator resets by mistake.

Each loss has a broker of its own, which a NameServer shows, and 1,000 messages a second.

- `disk`: kill -9, and the broker comes back with an empty store.
- `copy`: kill -9, and it comes back with a copy of its store from COPY_AGE_S before, as from a backup.
- `reset`: the group `reset` stands still, and its offsets are set to 0, and with them those of MANY groups in MANY
  queues each; then one command restores all of them, and the group starts again.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from group_deliveries import Delivered
from offset_clients import THOUSAND_A_SECOND, Group, OffsetClients
from offset_events import CHANGING, GO_ON_MAX_S, HEARTBEAT_MS, QUEUES, SETTLED_S, STEADY, TOPIC, report
from offset_ways import OFFSET_WAYS, LoneSet, ManagedSite
from peers.offset_managers import OffsetManager
from peers.servers import Broker
from peers.wire import SUCCESS, Caller
from role_addressed import now_ms

from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.offsets import OffsetCommit, commit_offset
from remoting.client import RemotingClient
from remoting.clock import SystemClock

COPY_AGE_S = 20
#: Groups, and queues of each.
MANY, MANY_TOPIC = 100, "Many"
#: The offset of each of these groups, half of the messages in each queue.
MANY_OFFSET = 10
RESET = "reset"
#: So long the group stands still before its offsets are reset, while messages are sent on: some readings.
STANDS_STILL_S = 20
UPDATE_GROUP = 200
MANY_OFFSETS = MANY * MANY
#: The number of queues by group and topic.
_MANY = {(f"many-{number}", MANY_TOPIC): MANY for number in range(MANY)}
#: Commits at work at a time.
AT_ONCE = 32
TIMEOUT_MS = 60_000
LOSSES = {
    "disk": "the store is empty after kill -9",
    "copy": f"the store is {COPY_AGE_S} s older after kill -9",
    "reset": "all offsets are reset to 0",
}


@dataclass(frozen=True)
class Loss:
    """What groups saw of one loss."""

    delivered: dict[str, Delivered]
    #: By group, deliveries of what it had got before.
    repeated: dict[str, int]
    #: The seconds until all queues of all groups went on; infinite if they did not in time.
    went_on_s: float
    #: How long one command took, and how many offsets it restored; None where there is none.
    restored_s: float | None = None
    restored: int = 0


class LoneSite:
    """A broker, its clients, and the offset manager that follows its NameServer, if there is one."""

    def __init__(self, managed: ManagedSite, version: str) -> None:
        assert isinstance(managed.site, LoneSet), "it has no slave"
        self.set, self.manager, self.version = managed.site, managed.manager, version
        self.broker = self.set.master()
        self.set.make_topic(TOPIC, QUEUES)
        if self.manager is not None:
            self.manager.timeout_s = TIMEOUT_MS / 1000
        self.clients = OffsetClients(self.set.lab, self.set.namesrv, version, TOPIC, HEARTBEAT_MS)

    def restart(self) -> None:
        """Start the broker again."""
        self.broker.start().ready()


def lose(kind: str, version: str, way: str) -> Loss:
    """Carry out one loss at a new broker."""
    with tempfile.TemporaryDirectory() as name, OFFSET_WAYS[way].begin(Path(name), version) as managed:
        site = LoneSite(managed, version)
        return _reset(site) if kind == "reset" else _broken_disk(kind, site)


def _broken_disk(kind: str, site: LoneSite) -> Loss:
    clients = site.clients
    clients.begin(THOUSAND_A_SECOND, [Group(STEADY), Group(CHANGING, clients=2)])
    time.sleep(SETTLED_S)
    backup = site.broker.store.with_name("backup")
    if kind == "copy":
        site.broker.process.kill()
        shutil.copytree(site.broker.store, backup)
        site.restart()
        time.sleep(COPY_AGE_S)
    clients.begin_window()
    site.broker.process.kill()
    clients.kill_oldest(CHANGING)
    shutil.rmtree(site.broker.store)
    if kind == "copy":
        backup.rename(site.broker.store)
    lost_ms = now_ms()
    site.restart()
    clients.join(CHANGING)
    went_on_s = _went_on_s(clients, lost_ms)
    time.sleep(SETTLED_S)
    return _judged(clients, went_on_s)


def _went_on_s(clients: OffsetClients, since_ms: int) -> float:
    in_time = clients.wait_until_all_go_on(since_ms, QUEUES, GO_ON_MAX_S)
    return (now_ms() - since_ms) / 1000 if in_time else float("inf")


def _judged(clients: OffsetClients, went_on_s: float, restored_s: float | None = None, restored: int = 0) -> Loss:
    repeated = {name: group.repeated for name, group in clients.groups.items()}
    return Loss(clients.judge(), repeated, went_on_s, restored_s, restored)


def _reset(site: LoneSite) -> Loss:
    make_many_offsets(site)
    clients = site.clients
    clients.begin(THOUSAND_A_SECOND, [Group(RESET)])
    time.sleep(SETTLED_S)
    clients.leave(RESET)
    time.sleep(STANDS_STILL_S)
    before_ms = now_ms()
    # Another moment than that of the reset.
    time.sleep(1)
    asyncio.run(_commit_all(site.broker, _MANY, 0))
    asyncio.run(_commit_all(site.broker, {(RESET, TOPIC): QUEUES}, 0))
    restored_s, restored = (None, 0) if site.manager is None else _restore(site.manager, before_ms)
    started_ms = now_ms()
    clients.join(RESET)
    went_on_s = _went_on_s(clients, started_ms)
    time.sleep(SETTLED_S)
    return _judged(clients, went_on_s, restored_s, restored)


def _restore(manager: OffsetManager, unix_ms: int) -> tuple[float, int]:
    """Restore the offsets of a moment; return how long that took for the many, and how many of these are restored."""
    began_s = time.monotonic()
    restored = _restored(manager, unix_ms, topic=MANY_TOPIC)
    took_s = time.monotonic() - began_s
    assert _restored(manager, unix_ms, group=RESET) == QUEUES
    return took_s, restored


def _restored(manager: OffsetManager, unix_ms: int, **scope: str) -> int:
    # Somebody has set them since, and no member is online that shows that its group pulls.
    wanted = {"writer": "benchmark", "moment": unix_ms, "overResets": True, "pulls": True}
    answer = manager.post("/v1/offsets/restore", {**wanted, **scope})
    assert answer.status == HTTPStatus.OK, answer
    assert not answer.body["problems"], answer.body["problems"]
    report(f"restore of {scope}: {answer.body['counts']}")
    return answer.body["counts"].get("done", 0)


# Groups that nobody is in


def make_many_offsets(site: LoneSite) -> None:
    """Make MANY groups with an offset in each of MANY queues."""
    site.set.make_topic(MANY_TOPIC, MANY)
    filler = site.set.lab.traffic("filler", namesrv=[site.set.namesrv], version=site.version)
    filler.send("filler", topic=MANY_TOPIC, count=2 * MANY * MANY_OFFSET, interval_ms=1)
    filler.finish("filler")
    filler.process.kill()
    for group, _ in _MANY:
        # From 5.3.0 on a broker takes offsets of groups alone that it has.
        answer = Caller(site.broker.address).request(UPDATE_GROUP, {}, json.dumps({"groupName": group}).encode())
        assert answer.code == SUCCESS, answer
    asyncio.run(_commit_all(site.broker, _MANY, MANY_OFFSET))


async def _commit_all(broker: Broker, queues: Mapping[tuple[str, str], int], offset: int) -> None:
    """Commit an offset of each group in so many queues of its topic."""
    client, at_once = RemotingClient(SystemClock()), asyncio.Semaphore(AT_ONCE)
    admin = AdminClient(client, AdminLimits(timeout_ms=TIMEOUT_MS, requests_per_peer_max=AT_ONCE))

    async def commit(group: str, topic: str, queue_id: int) -> None:
        async with at_once:
            answer = await admin.call(broker.address, commit_offset(group, topic, queue_id, offset))
        assert answer is OffsetCommit.STORED, (group, topic, queue_id, answer)

    try:
        # Brokers lose some of the first commits of a group in a topic that come at the same time.
        await asyncio.gather(*(commit(*key, 0) for key in queues))
        others = ((*key, queue_id) for key, count in queues.items() for queue_id in range(1, count))
        await asyncio.gather(*(commit(*each) for each in others))
    finally:
        await client.close()
