"""The queues that a server says a topic has. Pure."""

from typing import Final

from rmq.failures import CommandFailed

#: Of a topic on one broker set; brokers set no limit, and each queue is a row or a request here.
QUEUES_MAX: Final = 65_536


def queue_ids(broker_name: str, queue_nums: int) -> range:
    """Return the ids of a topic's queues on a broker set; raises CommandFailed for more than QUEUES_MAX."""
    if queue_nums > QUEUES_MAX:
        raise CommandFailed(f"{broker_name}: the topic is said to have {queue_nums} queues, more than {QUEUES_MAX}")
    return range(queue_nums)
