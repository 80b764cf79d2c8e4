"""topicRoute: where clients are sent."""

from typing import Any, Final

from msgspec import UNSET

from remoting.protocol.shapes.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import hash_map_order, long_hash
from rmq.mqadmin.java.json_text import JsonValue, pretty_json
from rmq.mqadmin.java.options import options_of, switch, value
from rmq.mqadmin.java.texts import map_text

_ROW: Final = "%-45s %-32s %-50s %-10s %-11s %-5s%n"
_LINE: Final = "-" * 158


async def _show(admin: Admin, line: CommandLine) -> None:
    route = await admin.route(line.needed("t"))
    if line.has("l"):
        _print_list(admin, route)
    else:
        admin.write(f"{pretty_json(_as_json(route))}\n")


def _print_list(admin: Admin, route: TopicRouteData) -> None:
    queues = {each.broker_name: each for each in route.queue_datas}
    admin.printf(_ROW, "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    reads = writes = 0
    for each in sorted(route.broker_datas, key=lambda broker: broker.broker_name):
        found = queues.get(each.broker_name, QueueData())
        reads, writes = reads + found.read_queue_nums, writes + found.write_queue_nums
        addresses = map_text({key: each.broker_addrs[key] for key in hash_map_order(each.broker_addrs, long_hash)})
        admin.printf(
            _ROW,
            each.cluster,
            each.broker_name,
            addresses,
            found.read_queue_nums,
            found.write_queue_nums,
            found.perm,
        )
    admin.printf("%s%n", _LINE)
    admin.printf(_ROW, "Total:", len(queues), "", reads, writes, "")


def _as_json(route: TopicRouteData) -> JsonValue:
    fields: dict[str, JsonValue] = {"brokerDatas": [_broker(each) for each in route.broker_datas]}
    fields["filterServerTable"] = {address: list(servers) for address, servers in route.filter_server_table.items()}
    if route.order_topic_conf is not UNSET:
        fields["orderTopicConf"] = route.order_topic_conf
    fields["queueDatas"] = [_queues(each) for each in route.queue_datas]
    mappings = route.topic_queue_mapping_by_broker
    if mappings is not UNSET:
        fields["topicQueueMappingByBroker"] = {name: _mapping(each) for name, each in mappings.items()}
    return fields


def _broker(broker: BrokerData) -> JsonValue:
    addresses: dict[Any, JsonValue] = {
        key: broker.broker_addrs[key] for key in hash_map_order(broker.broker_addrs, long_hash)
    }
    fields: dict[Any, JsonValue] = {
        "brokerAddrs": addresses,
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
    }
    return fields if broker.zone_name is UNSET else fields | {"zoneName": broker.zone_name}


def _queues(queues: QueueData) -> JsonValue:
    return {
        "brokerName": queues.broker_name,
        "perm": queues.perm,
        "readQueueNums": queues.read_queue_nums,
        "topicSysFlag": queues.topic_sys_flag,
        "writeQueueNums": queues.write_queue_nums,
    }


def _mapping(mapping: TopicQueueMappingInfo) -> JsonValue:
    ids = mapping.curr_id_map
    fields: dict[str, Any] = {
        "bname": mapping.bname,
        "currIdMap": ids if ids is UNSET else {key: ids[key] for key in sorted(ids)},
        "dirty": mapping.dirty,
        "epoch": mapping.epoch,
        "scope": mapping.scope,
        "topic": mapping.topic,
        "totalQueues": mapping.total_queues,
    }
    return {name: each for name, each in fields.items() if each is not UNSET}


TOPIC_ROUTE: Final = MqadminCommand(
    options_of(value("t", "topic", "topic name", required=True), switch("l", "list", "Use list format to print data")),
    _show,
)
