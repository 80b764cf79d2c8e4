"""Commands of mqadmin about groups and who is connected."""

from typing import Final

import msgspec

from remoting.admin.clients import producers
from remoting.admin.group_views import (
    producers_view,
    set_request_mode,
    subscription_groups_view,
    update_subscription_group,
)
from remoting.admin.groups import delete_group
from remoting.admin.name_servers import delete_topic_route
from remoting.admin.routes import delete_order_conf
from remoting.admin.topics import delete_topic
from remoting.protocol.shapes.group_views import RetryPolicyView, SimpleSubscriptionView, SubscriptionGroupView
from rmq.failures import CommandFailed, UnknownName, WrongUse
from rmq.mqadmin.admin import (
    DLQ,
    RETRY,
    Admin,
    address_in,
    addresses_in,
    command,
    integer,
    long_integer,
    switch_value,
)
from rmq.mqadmin.java.hash_order import concurrent_order, string_order
from rmq.mqadmin.java.options import CommandLine, value
from rmq.mqadmin.java.texts import java_format, java_text, map_text, version_text
from rmq.mqadmin.progress import consumers_of
from rmq.mqadmin.topics import attributes_in

_MODES: Final = ("PULL", "POP")
_EXPONENTIAL: Final = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}


@command(
    "updateSubGroup",
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
)
async def _update_sub_group(admin: Admin, line: CommandLine) -> None:
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
        raise WrongUse(f"-p is not a retry policy in JSON: {error}") from None


@command(
    "deleteSubGroup",
    value("b", "brokerAddr", "delete subscription group from which broker"),
    value("c", "clusterName", "delete subscription group from which cluster"),
    value("g", "groupName", "subscription group name", required=True),
    value("r", "removeOffset", "remove offset"),
)
async def _delete_sub_group(admin: Admin, line: CommandLine) -> None:
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
            for topic in (f"{RETRY}{group}", f"{DLQ}{group}"):
                await _delete_topic(admin, topic, cluster)
        except CommandFailed as failure:
            admin.note_failure(failure)
    else:
        admin.print_usage()


async def _delete_topic(admin: Admin, topic: str, cluster: str) -> None:
    await admin.at_all(await admin.members_of(cluster), delete_topic(topic))
    await admin.at_all(string_order(admin.settings.namesrv), delete_topic_route(topic, None))
    await admin.at_each(admin.settings.namesrv, delete_order_conf(topic))


@command(
    "setConsumeMode",
    value("b", "brokerAddr", "create subscription group to which broker"),
    value("c", "clusterName", "create subscription group to which cluster"),
    value("t", "topicName", "topic name", required=True),
    value("g", "groupName", "consumer group name", required=True),
    value("m", "mode", "consume mode. PULL/POP", required=True),
    value("q", "popShareQueueNum", "num of queue which share in pop mode"),
)
async def _set_consume_mode(admin: Admin, line: CommandLine) -> None:
    topic, group, mode = line.needed("t"), line.needed("g"), line.needed("m")
    if mode not in _MODES:
        raise WrongUse(f"-m: {mode} is not one of {', '.join(_MODES)}")
    shared = integer(line, "q", 0)
    request = set_request_mode(topic, group, mode, shared)
    if not await admin.at_broker_or_cluster(line, request, "set consume mode to %s success.%n"):
        admin.print_usage()
        return
    admin.printf("topic[%s] group[%s] consume mode[%s] popShareQueueNum[%d]", topic, group, mode, shared)


def group_fields(group: SubscriptionGroupView) -> dict[str, str | None]:
    """Return the fields of a group as Java prints them, in its order; None for null."""
    fields: dict[str, str | None] = {}
    for field in msgspec.structs.fields(SubscriptionGroupView):
        value = getattr(group, field.name)
        match value:
            case RetryPolicyView():
                text: str | None = _policy_text(value)
            case dict():
                text = map_text({name: value[name] for name in string_order(value)})
            case list():
                text = f"[{', '.join(map(_subscription_text, value))}]"
            case None:
                text = None
            case _:
                text = java_text(value)
        fields[field.encode_name] = text
    return fields


def group_text(group: SubscriptionGroupView) -> str:
    """Return `SubscriptionGroupConfig.toString`."""
    pairs = (f"{name}={java_text(text)}" for name, text in group_fields(group).items())
    return f"SubscriptionGroupConfig{{{', '.join(pairs)}}}"


def _policy_text(policy: RetryPolicyView) -> str:
    exponential = policy.exponential_retry_policy
    customized = policy.customized_retry_policy
    return java_format(
        "GroupRetryPolicy{type=%s, exponentialRetryPolicy=%s, customizedRetryPolicy=%s}",
        policy.type,
        None
        if exponential is None
        else java_format(
            "ExponentialRetryPolicy{initial=%d, max=%d, multiplier=%d}",
            *({**_EXPONENTIAL, **exponential}[name] for name in _EXPONENTIAL),
        ),
        None if customized is None else f"CustomizedRetryPolicy{{next={customized.get('next', [])}}}",
    )


def _subscription_text(found: SimpleSubscriptionView) -> str:
    return java_format(
        "SimpleSubscriptionData{topic=%s, expressionType=%s, expression=%s, version=%d}",
        found.topic,
        found.expression_type,
        found.expression,
        found.version,
    )


@command("getConsumerConfig", value("g", "groupName", "subscription group name", required=True))
async def _get_consumer_config(admin: Admin, line: CommandLine) -> None:
    group = line.needed("g")
    info = await admin.cluster()
    found = []
    for name in string_order(info.broker_addr_table):
        address = address_in(info.broker_addr_table[name])
        groups = {} if address is None else await admin.call(address, subscription_groups_view())
        if group in groups:
            found.append((name, groups[group]))
    table = info.cluster_addr_table
    for name, configuration in found:
        cluster = next((each for each in string_order(table) if name in table[each]), None)
        admin.printf("=============================%s:%s=============================%n", cluster, name)
        for field, text in group_fields(configuration).items():
            admin.printf("%-40s=  %s%n", field, text or "")


@command(
    "consumerConnection",
    value("g", "consumerGroup", "consumer group name", required=True),
    value("b", "brokerAddr", "broker address"),
)
async def _consumer_connection(admin: Admin, line: CommandLine) -> None:
    found = await consumers_of(admin, line.needed("g"), line.text("b"))
    admin.print_heads("%-36s %-22s %-10s %s%n", "#ClientId|#ClientAddr|#Language|#Version")
    for each in found.clients:
        version = version_text(each.version or 0)
        admin.printf("%-36s %-22s %-10s %s%n", each.client_id, each.address, each.language, version)
    admin.printf("%nBelow is subscription:%n")
    admin.printf("%-20s %s%n", "#Topic", "#SubExpression")
    for topic in concurrent_order(found.subscriptions):
        admin.printf("%-20s %s%n", topic, found.subscriptions[topic].expression)
    admin.printf("%nConsumeType: %s%n", found.consume_type)
    admin.printf("MessageModel: %s%n", found.message_model)
    admin.printf("ConsumeFromWhere: %s%n", found.consume_from_where)


@command(
    "producerConnection",
    value("g", "producerGroup", "producer group name", required=True),
    value("t", "topic", "topic name", required=True),
)
async def _producer_connection(admin: Admin, line: CommandLine) -> None:
    brokers = (await admin.route(line.needed("t"))).broker_datas
    # mqadmin takes any of them.
    address = next(iter(addresses_in(brokers)), None)
    clients = [] if address is None else (await admin.call(address, producers_view(line.needed("g")))).clients
    if not clients:
        raise UnknownName("Not found the producer group connection")
    for number, each in enumerate(clients, start=1):
        admin.printf(
            "%04d  %-32s %-22s %-8s %s%n",
            number,
            each.client_id,
            each.address,
            each.language,
            version_text(each.version or 0),
        )


@command("producer", value("b", "broker", "broker address", required=True))
async def _producer(admin: Admin, line: CommandLine) -> None:
    groups = await admin.call(line.needed("b"), producers())
    for group in string_order(groups):
        if not groups[group]:
            admin.printf("producer group (%s) instances are empty%n", group)
        for each in groups[group]:
            admin.printf(
                "producer group (%s) instance : clientId=%s,remoteIP=%s, language=%s, version=%d, "
                "lastUpdateTimestamp=%d%n",
                group,
                each.client_id,
                each.remote_ip,
                each.language,
                each.version,
                each.last_update_timestamp,
            )
