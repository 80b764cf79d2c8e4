"""NameServers and brokers on loopback that answer what a sampler asks as their test says."""

import json

from fakes.answering_peer import refusal, success

from remoting.protocol.codes import BrokerRequestCode

ROUTE = 105


def a_route(**masters):
    """Return the answer of a NameServer: the address of the master by the name of its set."""
    sets = [
        {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": address} if address else {"1": "127.0.0.1:1"}}
        for name, address in masters.items()
    ]
    return success({"brokerDatas": sets, "queueDatas": [], "filterServerTable": {}})


class Topics:
    """What one broker knows: ends by topic, and of each group its offsets by topic and its members."""

    def __init__(self, ends, groups=None, members=None):
        self.ends = ends
        self.groups = groups or {}
        self.members = members or {}

    def __call__(self, code, fields):
        match code:
            case BrokerRequestCode.GET_TOPIC_STATS_INFO:
                return success(table(fields["topic"], maxOffset=self.ends[fields["topic"]]))
            case BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO:
                names = [group for group, offsets in self.groups.items() if fields["topic"] in offsets]
                return success({"groupList": names})
            case BrokerRequestCode.GET_CONSUME_STATS:
                topic = fields["topic"]
                offset = self.groups[fields["consumerGroup"]][topic]
                return success(table(topic, brokerOffset=self.ends[topic], consumerOffset=offset))
            case BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST:
                members = self.members.get(fields["consumerGroup"])
                if not members:
                    return refusal(206)
                clients = [{"clientId": each} for each in members]
                return success({"connectionSet": clients, "messageModel": "CLUSTERING"})


def table(topic, **values):
    queue = json.dumps({"brokerName": "b", "queueId": 0, "topic": topic})
    return f'{{"offsetTable":{{{queue}:{json.dumps(values)}}}}}'.encode()
