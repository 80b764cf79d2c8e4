"""An offset manager at brokers with ACL: with the rights of the table it does everything, and without it names them."""

import asyncio
import contextlib
import json

import pytest
from java_pairs import manager_of, newest_run, read_again
from peers.acl import CONTROL, OFFSETS, POWERLESS, Keys, acl_1, acl_2, admit, request_as, servers_keys
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab

from remoting.admin import offsets
from remoting.admin.brokers import broker_options, broker_runtime
from remoting.admin.clients import running_consumer
from remoting.admin.groups import connections_of_group
from remoting.admin.locks import lock_queues, unlock_queues
from remoting.admin.log_epochs import log_epochs
from remoting.admin.message_queues import MessageQueue
from remoting.admin.messages import send_message
from remoting.admin.offset_table import all_offsets
from remoting.admin.stored_messages import message_in_log, queue_entry
from remoting.admin.topics import queue_offsets, topic_definition, topic_definition_of_all
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.addresses import named_addresses
from remoting.protocol.broker_rights import needed_rights
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.signing import Credentials, Signer, is_denied

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(900)]

CLOCK = SystemClock()
GROUP = "idle-readers"
#: The topic of its own that a broker begins with, which has its name.
TOPIC = "guarded"
UPDATE_GROUP = 200
SOON_S = 240
MESSAGES = 40
#: What the table in docs/broker-acl.md gives the user; locks are replayed with the second one alone.
RIGHTS = {"Topic:*": ["Get", "Update"], "Group:*": ["Get", "Update"]}
RIGHTS_OF_REPLAYS = {resource: [*actions, "Sub"] for resource, actions in RIGHTS.items()}
LOCKS = {BrokerRequestCode.LOCK_BATCH_MQ, BrokerRequestCode.UNLOCK_BATCH_MQ}


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def started(lab, version, namesrv=None, **properties):
    """Return a broker that enforces ACL, and has the group and some messages."""
    own = (acl_2() if version == V5_5 else acl_1(lab.folder, f"{TOPIC}-0")) | properties
    addresses = [namesrv.address] if namesrv else ["127.0.0.1:9"]
    broker = lab.broker(TOPIC, version=version, namesrv=addresses, **own).start().ready()
    made = request_as(broker, CONTROL, UPDATE_GROUP, {}, json.dumps({"groupName": GROUP}).encode())
    assert made.code == 0, made
    for number in range(MESSAGES):
        message = send_message(TOPIC, TOPIC, b"%d" % number, producer_group="p", unix_ms=CLOCK.unix_ms())
        assert answer_to(broker, CONTROL, message).code == 0
    return broker


def answer_to(broker, keys, wanted):
    """Return what a broker answers to a request that this user signs."""

    async def call():
        signer = Signer(credentials=Credentials(keys.access, keys.secret), named=named_addresses("127.0.0.1"))
        client = RemotingClient(CLOCK, signer=signer)
        try:
            return await client.invoke(broker.address, wanted.request, 60_000)
        finally:
            await client.close()

    return asyncio.run(call())


def requests_of_a_manager():
    """Return everything that a manager sends to brokers."""
    queue = MessageQueue(topic=TOPIC, broker_name=TOPIC, queue_id=0)
    return [
        all_offsets(),
        broker_runtime(),
        log_epochs(),
        broker_options([offsets.RESETS_ON_SERVER]),
        offsets.commit_offset(GROUP, TOPIC, 0, 1),
        offsets.reset_offset(GROUP, TOPIC, 0, 1),
        offsets.max_offset(TOPIC, 0),
        offsets.min_offset(TOPIC, 0),
        queue_offsets(TOPIC),
        topic_definition(TOPIC),
        topic_definition_of_all(TOPIC),
        queue_entry(TOPIC, 0, 0),
        message_in_log(0),
        connections_of_group(GROUP),
        running_consumer(GROUP, "10.0.0.1@7"),
        lock_queues("10.0.0.1@7", GROUP, [queue]),
        unlock_queues("10.0.0.1@7", GROUP, [queue]),
    ]


def denied(broker, keys):
    """Return the codes of the requests that a broker denies this user."""
    return {wanted.request.code for wanted in requests_of_a_manager() if is_denied(answer_to(broker, keys, wanted))}


def test_brokers_with_acl_2_want_the_rights_that_the_manager_names(lab):
    broker = started(lab, V5_5)
    admit(broker, POWERLESS, {})
    admit(broker, OFFSETS, RIGHTS)
    named = {wanted.request.code for wanted in requests_of_a_manager() if needed_rights(wanted.request.code)}
    assert denied(broker, POWERLESS) == named
    assert denied(broker, OFFSETS) == LOCKS
    with_locks = Keys("replaying-manager", "s3cret-of-the-replays")
    admit(broker, with_locks, RIGHTS_OF_REPLAYS)
    assert denied(broker, with_locks) == set()


@pytest.mark.parametrize("version", [V5_1, V4_9])
def test_brokers_with_acl_1_want_a_right_for_commits_alone(lab, version):
    broker = started(lab, version)
    assert denied(broker, POWERLESS) == {BrokerRequestCode.UPDATE_CONSUMER_OFFSET}
    assert denied(broker, OFFSETS) == set()


def manager_as(lab, namesrv, keys):
    """Start a manager that signs its requests as a user."""
    own = {"broker_access_addresses": servers_keys(keys)["brokerAccessAddresses"]}
    for option, text in (("broker_access_key_path", keys.access), ("broker_secret_key_path", keys.secret)):
        own[option] = lab.folder / option
        own[option].write_text(text)
    return manager_of(lab, namesrv_addr=namesrv.address, reading_period_ms=1000, repair="act", **own)


def commit(broker, offset):
    """Commit an offset of the group as an administrator."""
    assert answer_to(broker, CONTROL, offsets.commit_offset(GROUP, TOPIC, 0, offset)).code == 0


def shown(broker):
    """Return the offset of the group that a broker has."""
    wanted = offsets.committed_offset(GROUP, TOPIC, 0)
    return wanted.read_response(answer_to(broker, CONTROL, wanted))


def restored(manager, moment):
    wanted = {"writer": "alice", "moment": moment, "group": GROUP, "pulls": True, "overResets": True}
    (queue,) = manager.post("/v1/offsets/restore", wanted).body["queues"]
    return queue


@pytest.mark.parametrize("version", [V5_5, V5_1, V4_9])
def test_manager_with_the_rights_of_the_table_reads_restores_and_repairs(lab, version):
    namesrv = lab.name_server()
    broker = started(lab, version, namesrv)
    if version == V5_5:
        admit(broker, OFFSETS, RIGHTS)
    manager = manager_as(lab, namesrv, OFFSETS)
    commit(broker, 30)
    moment = read_again(manager, times=3)

    commit(broker, 10)
    assert restored(manager, moment)["status"] == "done"
    assert shown(broker) == 30
    assert manager.get(f"/v1/offsets/lag?group={GROUP}").body["unavailable"] == []

    # After a kill it looks at messages, options and members.
    read_again(manager, times=3)
    broker.process.kill()
    broker.start().ready()
    run, _ = newest_run(manager)
    assert (run["problem"], run["partedAt"]) == ("", None), run
    assert [manager.events(name) for name in ("broker_request_denied", "broker_request_not_signed")] == [[], []]


@pytest.mark.parametrize(
    ("version", "right"),
    [
        (V5_5, "the user needs with ACL 2.0 Get of the topic"),
        (V5_1, "with ACL 1.0 SUB of both"),
        (V4_9, "with ACL 1.0 SUB of both"),
    ],
)
def test_restore_without_rights_names_the_first_that_is_missing(lab, version, right):
    namesrv = lab.name_server()
    broker = started(lab, version, namesrv)
    if version == V5_5:
        admit(broker, POWERLESS, {})
    manager = manager_as(lab, namesrv, POWERLESS)
    commit(broker, 30)
    moment = read_again(manager, times=3)
    commit(broker, 10)

    queue = restored(manager, moment)

    assert queue["status"] in ("failed", "not proved"), queue
    assert right in queue["why"], queue["why"]
    assert shown(broker) == 10
    assert all("brokerAccessKey" in line["advice"] for line in manager.events("broker_request_denied"))
    assert any("ACL" in line["advice"] for line in manager.events("broker_request_denied"))
