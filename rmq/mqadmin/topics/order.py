"""updateOrderConf: the order configuration of a topic, at every NameServer."""

from typing import Final

from remoting.admin.routes import delete_order_conf, order_conf, put_order_conf
from rmq.failures import UnknownName, WrongUse
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _update(admin: Admin, line: CommandLine) -> None:
    topic, method = line.needed("t"), line.needed("m")
    # mqadmin prints no line ends.
    if method == "get":
        found = await admin.at_name_server(order_conf(topic))
        if found is None:
            raise UnknownName(f"{topic} has no order configuration")
        admin.printf("get orderConf success. topic=[%s], orderConf=[%s] ", topic, found)
    elif method == "put":
        conf = line.text("v")
        if not conf:
            raise WrongUse("please set orderConf with option -v.")
        await admin.at_each(admin.settings.namesrv, put_order_conf(topic, conf))
        admin.printf("update orderConf success. topic=[%s], orderConf=[%s]", topic, conf)
    elif method == "delete":
        await admin.at_each(admin.settings.namesrv, delete_order_conf(topic))
        admin.printf("delete orderConf success. topic=[%s]", topic)
    else:
        admin.print_usage()


UPDATE_ORDER_CONF: Final = MqadminCommand(
    options_of(
        value("t", "topic", "topic name", required=True),
        value("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
        value("m", "method", "option type [eg. put|get|delete", required=True),
    ),
    _update,
)
