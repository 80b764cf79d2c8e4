"""Fingerprints of a log: one look at each reading of a busy log, a walk in an idle one."""

import pytest
from read_brokers import Brokers, ReadBroker

from offsets.at_broker import FILES_MAX, WALK_MAX, AtBroker, LogWatch
from offsets.proof import NoMessage
from offsets.values import SetName
from remoting.admin.client import AdminClient, AdminLimits

LOOK = 33


class Watched:
    """A broker, and the log of it that is watched."""

    def __init__(self, **options):
        self.broker = ReadBroker(**options)
        self.at = AtBroker(AdminClient(Brokers(a=self.broker), AdminLimits()), SetName("", ""), "a", busy_tries=0)
        self.watch = LogWatch()

    async def look(self, *, end=None):
        broker = self.broker
        return await self.watch.look(self.at, broker.begin, end or broker.end, broker.end)


@pytest.fixture
def log():
    return Watched(file_bytes=1 << 20)


async def test_a_busy_log_costs_one_look_at_the_end_of_the_reading_before(log):
    log.broker.write(5)
    assert await log.look() is None
    for _ in range(3):
        end = log.broker.end
        log.broker.write(3)
        found = await log.look()
        assert found == log.broker.message(end)
    assert log.broker.asked == [LOOK] * 3


async def test_an_idle_log_is_known_by_its_last_message(log):
    log.broker.write(1000, queue_ids=(0, 1, 2, 3))
    await log.look()
    found = await log.look()

    assert found.end == log.broker.end
    # No queue is passed twice.
    assert log.broker.asked.count(LOOK) <= 5
    asked = len(log.broker.asked)
    assert await log.look() is None
    assert len(log.broker.asked) == asked


async def test_a_log_that_comes_to_rest_is_walked_on_from_where_it_is_known(log):
    log.broker.write(2)
    await log.look()
    end = log.broker.end
    log.broker.write(4)
    assert (await log.look()).place == end
    assert (await log.look()).end == log.broker.end


async def test_a_walk_is_short_and_goes_on_at_the_next_reading(log):
    # Each queue has one message: no jump helps.
    log.broker.write(2 * WALK_MAX + 5, queue_ids=range(3 * WALK_MAX))
    await log.look()
    places = [(await log.look()).place for _ in range(3)]

    assert log.broker.asked.count(LOOK) == 2 * WALK_MAX + 5
    assert places == [log.broker.queues[number][0] for number in (WALK_MAX - 1, 2 * WALK_MAX - 1, 2 * WALK_MAX + 4)]


async def test_a_message_may_begin_in_the_next_file_of_the_log():
    log = Watched(file_bytes=500)
    await log.look()
    found = []
    for _ in range(20):
        log.broker.write(1)
        found.append(await log.look())

    assert [each.place for each in found] == sorted({*log.broker.queues[0]})
    assert any(each.place % 500 == 0 for each in found[1:])


async def test_a_message_that_was_written_since_the_reading_is_none_of_it(log):
    log.broker.write(1)
    await log.look()
    broker, end = log.broker, log.broker.end
    broker.write(1)

    assert await log.watch.look(log.at, 0, end + 1, end + 1) is None


async def test_nothing_is_found_in_an_empty_log_nor_where_the_broker_refuses(log):
    assert [await log.look(), await log.look()] == [None, None]
    log.broker.write(1)
    log.broker.refused[LOOK] = 1, "a fault"
    assert await log.look() is None


async def test_a_walk_goes_from_message_to_message_where_queues_are_refused(log):
    log.broker.write(10)
    log.broker.refused[321] = 1, "a fault"
    await log.look()
    assert (await log.look()).end == log.broker.end


async def test_a_log_that_is_new_here_is_known_by_the_first_messages_of_its_files():
    log = Watched(file_bytes=500)
    log.broker.write(200)
    found = await log.at.first_of_files(0, log.broker.end, 500)

    assert found[0] == log.broker.message(0)
    assert all(mark.place % 500 == 0 and mark == log.broker.message(mark.place) for mark in found)
    assert len(found) <= FILES_MAX + 1
    assert await log.at.first_of_files(500, 500, 500) == []


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ((1, "can not find message by the offset, 7"), NoMessage.ABSENT),
        ((1, "java.lang.NullPointerException"), NoMessage.UNKNOWN),
        ((2, "busy"), NoMessage.UNKNOWN),
        ((16, "no permission"), NoMessage.UNKNOWN),
    ],
)
async def test_only_the_broker_that_finds_no_message_says_so(log, refusal, expected):
    log.broker.write(1)
    log.broker.refused[LOOK] = refusal
    assert await log.at.look_alone(0) is expected


async def test_other_bytes_are_no_message_and_no_answer_is_unknown(log):
    log.broker.write(2)
    log.broker.log[0] = log.broker.log[0][:60]
    log.broker.log[5] = log.broker.log[log.broker.queues[1][0]]
    assert await log.at.look_alone(0) is NoMessage.ABSENT
    # A message of another place.
    assert await log.at.look_alone(5) is NoMessage.ABSENT
    log.broker.is_down = True
    assert await log.at.look_alone(0) is NoMessage.UNKNOWN
