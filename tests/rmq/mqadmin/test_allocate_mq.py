"""`mqadmin allocateMQ`: the cases of docs/protocol/queue-locks.md 6 that Java has answered."""

from remoting.admin.message_queues import MessageQueue
from rmq.mqadmin.topics import as_allocate_mq


def test_queues_come_in_the_order_of_a_java_hash_set():
    queues = [MessageQueue(topic="TopicTest", broker_name="broker-a", queue_id=number) for number in range(8)]
    found = as_allocate_mq(queues, ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    assert {address: [each.queue_id for each in share] for address, share in found.items()} == {
        "10.0.0.1": [7, 6, 3],
        "10.0.0.2": [2, 5, 4],
        "10.0.0.3": [1, 0],
    }
    assert as_allocate_mq(queues, []) == {}
    assert as_allocate_mq([], ["one"]) == {"one": []}
    twice = as_allocate_mq(queues[:6], ["one", "one", "two"])
    assert {address: len(share) for address, share in twice.items()} == {"one": 2, "two": 2}
