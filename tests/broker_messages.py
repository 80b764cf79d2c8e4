"""Fields and bodies of registrations, as brokers send them."""

import json

BROKER = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "DefaultCluster"}
MASTER = BROKER | {"brokerId": "0", "haServerAddr": "10.0.0.1:10912", "enableActingMaster": "false"}
SLAVE = MASTER | {"brokerId": "1", "brokerAddr": "10.0.0.2:10911"}


def registration_body(*topics, counter=1, state_version=0, **settings):
    configs = {
        topic: {"topicName": topic, "perm": 6, "readQueueNums": 8, "writeQueueNums": 8, "topicSysFlag": 0} | settings
        for topic in topics
    }
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": state_version, "timestamp": 1_700_000_000_000},
        "topicConfigTable": configs,
    }
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


TOPICS = registration_body("TopicTest", "broker-a")
