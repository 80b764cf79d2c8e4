"""updateSubGroup, deleteSubGroup and setConsumeMode."""

from typing import Final

import msgspec

from remoting.admin.group_views import set_request_mode, update_subscription_group
from remoting.admin.groups import delete_group
from remoting.admin.name_servers import delete_topic_route
from remoting.admin.routes import delete_order_conf
from remoting.admin.topics import delete_topic
from remoting.protocol.shapes.group_views import RetryPolicyView, SubscriptionGroupView
from rmq.failures import CommandFailed, WrongUse
from rmq.mqadmin.admin import Admin, MqadminCommand, integer, long_integer, switch_value
from rmq.mqadmin.groups.group_texts import group_text
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.topics.definitions import attributes_in

_RETRY: Final = "%RETRY%"
_DLQ: Final = "%DLQ%"
_MODES: Final = ("PULL", "POP")


async def _update(admin: Admin, line: CommandLine) -> None:
    group = _group_in(line)
    request = update_subscription_group(group)
    if not await admin.at_broker_or_cluster(line, request, "create subscription group to %s success.%n"):
        admin.print_usage()
        return
    # mqadmin prints no line end.
    admin.printf("%s", group_text(group))


def _group_in(line: CommandLine) -> SubscriptionGroupView:
    return SubscriptionGroupView(
        group_name=line.needed("g"),
        consume_enable=switch_value(line, "s", default=True),
        consume_from_min_enable=switch_value(line, "m", default=False),
        consume_broadcast_enable=switch_value(line, "d", default=False),
        consume_message_orderly=switch_value(line, "o", default=False),
        retry_queue_nums=integer(line, "q", 1),
        retry_max_times=integer(line, "r", 16),
        group_retry_policy=_policy_in(line.text("p")),
        broker_id=long_integer(line, "i", 0),
        which_broker_when_consume_slowly=long_integer(line, "w", 1),
        notify_consumer_ids_changed_enable=switch_value(line, "a", default=True),
        attributes=attributes_in(line.text("attributes")),
    )


def _policy_in(text: str | None) -> RetryPolicyView:
    if text is None:
        return RetryPolicyView()
    try:
        return msgspec.json.decode(text, type=RetryPolicyView, strict=False)
    except msgspec.DecodeError as error:
        raise WrongUse(f"-p is no retry policy in JSON: {error}") from None


async def _delete(admin: Admin, line: CommandLine) -> None:
    group = line.needed("g")
    request = delete_group(group, cleans_offsets=switch_value(line, "r", default=False))
    address, cluster = line.text("b"), line.text("c")
    if address is not None:
        await admin.call(address, request)
        admin.printf("delete subscription group [%s] from broker [%s] success.%n", group, address)
    elif cluster is not None:

        def note(master: str) -> None:
            admin.printf(
                "delete subscription group [%s] from broker [%s] in cluster [%s] success.%n", group, master, cluster
            )

        await admin.at_all(await admin.masters_of(cluster), request, note)
        try:
            for topic in (f"{_RETRY}{group}", f"{_DLQ}{group}"):
                await _delete_topic(admin, topic, cluster)
        except CommandFailed as failure:
            admin.note_failure(failure)
    else:
        admin.print_usage()


async def _delete_topic(admin: Admin, topic: str, cluster: str) -> None:
    await admin.at_all(await admin.members_of(cluster), delete_topic(topic))
    await admin.at_all(string_order(admin.settings.namesrv), delete_topic_route(topic, None))
    await admin.at_each(admin.settings.namesrv, delete_order_conf(topic))


async def _set_mode(admin: Admin, line: CommandLine) -> None:
    topic, group, mode = line.needed("t"), line.needed("g"), line.needed("m")
    if mode not in _MODES:
        raise WrongUse(f"-m: {mode} is none of {', '.join(_MODES)}")
    shared = integer(line, "q", 0)
    request = set_request_mode(topic, group, mode, shared)
    if not await admin.at_broker_or_cluster(line, request, "set consume mode to %s success.%n"):
        admin.print_usage()
        return
    admin.printf("topic[%s] group[%s] consume mode[%s] popShareQueueNum[%d]", topic, group, mode, shared)


UPDATE_SUB_GROUP: Final = MqadminCommand(
    options_of(
        value("b", "brokerAddr", "create subscription group to which broker"),
        value("c", "clusterName", "create subscription group to which cluster"),
        value("g", "groupName", "consumer group name", required=True),
        value("s", "consumeEnable", "consume enable"),
        value("m", "consumeFromMinEnable", "from min offset"),
        value("d", "consumeBroadcastEnable", "broadcast"),
        value("o", "consumeMessageOrderly", "consume message orderly"),
        value("q", "retryQueueNums", "retry queue nums"),
        value("r", "retryMaxTimes", "retry max times"),
        value(
            "p",
            "groupRetryPolicy",
            'the json string of retry policy ( exp: {"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,'
            '"max":7200000,"multiplier":2}} {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}} )',
        ),
        value("i", "brokerId", "consumer from which broker id"),
        value("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
        value("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
        value(None, "attributes", "attribute(+a=b,+c=d,-e)"),
    ),
    _update,
)
DELETE_SUB_GROUP: Final = MqadminCommand(
    options_of(
        value("b", "brokerAddr", "delete subscription group from which broker"),
        value("c", "clusterName", "delete subscription group from which cluster"),
        value("g", "groupName", "subscription group name", required=True),
        value("r", "removeOffset", "remove offset"),
    ),
    _delete,
)
SET_CONSUME_MODE: Final = MqadminCommand(
    options_of(
        value("b", "brokerAddr", "create subscription group to which broker"),
        value("c", "clusterName", "create subscription group to which cluster"),
        value("t", "topicName", "topic name", required=True),
        value("g", "groupName", "consumer group name", required=True),
        value("m", "mode", "consume mode. PULL/POP", required=True),
        value("q", "popShareQueueNum", "num of queue which share in pop mode"),
    ),
    _set_mode,
)
