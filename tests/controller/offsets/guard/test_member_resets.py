"""Members that go on from positions in a lost tail: sent back as they come, at real connections to fake masters."""

import pytest
from fakes.answering_peer import NOTHING, refusal
from guard_logs import BOOT_MS, READ_MS, Queue
from guarded_sets import KEY, OLD_ADDRESS, ORDERS, a_master, eventually, guarded_sets, set_name

from controller.offsets.app import guarding
from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard import master_queries, member_resets
from controller.offsets.guard.awaited_members import (
    GOES_BACK_MS,
    LAST_LOOK_MS,
    SETTLES_MS,
    WITHIN_MAX_MS,
    WITHIN_MS,
)
from controller.offsets.guard.member_resets import UNKNOWN_MS
from controller.offsets.guard.rules import Tail
from controller.offsets.mirror.regressions import Reset, SetQueue
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode

#: After that members of a group with one topic have gone back.
GONE_BACK_MS = GOES_BACK_MS + SETTLES_MS
COMMIT = ("commit", KEY, 0, 100)
SENT_BACK = ("members", KEY, {0: 100})
RESET = ("reset", KEY, 0, 100)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(guarding, "LOOK_S", 0.02)
    monkeypatch.setattr(member_resets, "LOOK_S", 0.02)


def a_former_release(offsets, **values):
    """Return a master that cannot reset offsets by itself."""
    master = a_master(offsets, **values)
    master.options = "useServerSideResetOffset=false\n"
    return master


def with_topics(*topics):
    """Return a master of a former release with a queue in each of these topics."""
    master = a_former_release({f"{topic}@g": {0: 60} for topic in topics})
    master.queues = {(topic, 0): Queue(old=100, new=20) for topic in topics}
    return master


def fail_over(sets, master, *, read=130, topics=("orders",), **values):
    """Let the mirror have read offsets, and elect a master whose old messages end at 100."""
    sets.elect(OLD_ADDRESS, 1, broker_id=1)
    sets.mirror.read({f"{topic}@g": {0: read} for topic in topics})
    sets.clock.pass_ms(3_000)
    sets.elect(master.peer.address, 2, **values)


def times_sent_back(master):
    return sum(each[0] == "members" for each in master.written)


def topics_sent_back(master):
    """Return the topics at which members were sent back, in this order."""
    return [each[1].removesuffix("@g") for each in master.written if each[0] == "members"]


def resets_requested(master):
    return master.peer.count(BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET)


async def sent_back(master, times=1):
    await eventually(lambda: times_sent_back(master) >= times)


async def sent_back_twice(sets, master):
    """Wait until the members that are there have been sent back for good."""
    before = times_sent_back(master)
    await sent_back(master, before + 1)
    sets.clock.pass_ms(GONE_BACK_MS)
    await sent_back(master, before + 2)
    sets.clock.pass_ms(GONE_BACK_MS)


async def looked_again(master):
    """Wait until the members were requested some times more."""
    code = BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST
    before = master.peer.count(code)
    await eventually(lambda: master.peer.count(code) > before + 5)


# Brokers that reset nothing on their side


async def test_members_are_sent_back_twice_where_the_broker_cannot_reset_offsets():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        # A member has committed its position in the lost tail before it goes back.
        master.offsets[KEY][0] = 130
        sets.clock.pass_ms(GONE_BACK_MS)
        await sent_back(master, 2)
        sets.clock.pass_ms(GONE_BACK_MS)
        await looked_again(master)
        first, _ = sets.events("members_reset")
    assert master.written == [COMMIT, COMMIT, SENT_BACK, COMMIT, SENT_BACK]
    assert (first["group"], first["topics"], first["members"]) == ("g", ["orders"], 1)
    assert sets.counters.member_resets.counts()[("sent",)] == 2
    # A broker of 4.9 may send to the message before.
    assert {each[-1] for each in sets.mirror.set_back} == {99, 100}


async def test_no_queue_is_sent_beyond_the_first_new_message_whatever_is_committed_meanwhile():
    master = a_former_release({KEY: {0: 60}})

    def commit_at_once(code):
        if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET:
            master.offsets[KEY][0] = 115

    async with guarded_sets(master) as sets:
        master.then = commit_at_once
        fail_over(sets, master)
        await sent_back(master)
    assert master.written[-1] == SENT_BACK


async def test_slow_member_that_began_at_the_older_copy_keeps_no_queue_of_its_topic_from_being_sent_back():
    """The other one died with the master. What it commits may as well be a rewind of an operator: it is not raised."""
    master = a_former_release({KEY: {0: 60, 1: 90}})
    master.queues["orders", 1] = Queue(old=100, new=20)

    positions = [66]

    def commit_its_position(code):
        if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET and master.written[-1][2] == 0 and positions:
            master.offsets[KEY][0] = positions.pop()

    async with guarded_sets(master) as sets:
        master.then = commit_its_position
        sets.elect(OLD_ADDRESS, 1, broker_id=1)
        sets.mirror.read({KEY: {0: 80, 1: 130}})
        sets.clock.pass_ms(3_000)
        sets.elect(master.peer.address, 2)
        await sent_back_twice(sets, master)
    assert ("commit", KEY, 0, 80) in master.written
    assert [each for each in master.written if each[0] == "members"] == [("members", KEY, {0: 66, 1: 100})] * 2
    assert sets.events("members_not_reset") == []


async def test_members_are_sent_back_where_what_was_saved_has_expired():
    master = a_former_release({KEY: {0: 60}})
    master.queues[ORDERS] = Queue(old=100, new=20, expired=50)
    async with guarded_sets(master, tail=Tail.LOST) as sets:
        fail_over(sets, master, read=5)
        await sent_back(master)
    # The broker corrects it to the first message that there is.
    assert master.written[-1] == ("members", KEY, {0: 5})


async def test_nothing_is_sent_until_a_message_was_stored_after_the_promotion():
    master = a_former_release({KEY: {0: 60}}, new=0)
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sets.ended()
        before = master.peer.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID)
        await eventually(lambda: master.peer.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID) > before + 5)
        assert times_sent_back(master) == 0
        master.queues[ORDERS] = Queue(old=100, new=1)
        await sent_back(master)


async def test_members_that_come_later_are_sent_back_with_the_others():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back_twice(sets, master)
        await looked_again(master)
        assert times_sent_back(master) == 2
        master.members = ["c1", "c2"]
        await sent_back_twice(sets, master)
        await looked_again(master)
    assert times_sent_back(master) == 4


@pytest.mark.parametrize(
    ("started_ms", "pulled_ms", "is_sent_back"),
    [(6_000, 9_000, False), (6_000, None, True), (4_000, 9_000, True), (3_606_000, 3_609_000, True)],
    ids=["started since", "no pull shows its clock", "within the margin of clocks", "its clock is late"],
)
async def test_member_that_has_started_since_has_no_position_to_be_sent_back_from(started_ms, pulled_ms, is_sent_back):
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back_twice(sets, master)
        settled_ms = sets.clock.unix_ms()
        sets.clock.pass_ms(10_000)
        master.started = {"c2": (settled_ms + started_ms, None if pulled_ms is None else settled_ms + pulled_ms)}
        master.members = ["c1", "c2"]
        await (sent_back(master, 3) if is_sent_back else looked_again(master))
        assert times_sent_back(master) == 2 + is_sent_back


async def test_member_that_has_started_while_others_go_back_may_have_got_the_position_of_one_of_them():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        now_ms = sets.clock.unix_ms()
        master.started = {"c2": (now_ms + 6_000, now_ms + 9_000)}
        master.members = ["c1", "c2"]
        sets.clock.pass_ms(GONE_BACK_MS)
        await sent_back(master, 2)
        sets.clock.pass_ms(GONE_BACK_MS)
        await sent_back(master, 3)


async def test_nobody_is_awaited_any_longer_than_members_need_to_come():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back_twice(sets, master)
        sets.clock.pass_ms(WITHIN_MS)
        await eventually(lambda: not sets.guarding.awaiting_members)
    assert sets.events("members_not_reset") == []


async def test_group_with_many_topics_is_awaited_until_its_members_were_sent_back_twice_and_others_looked_at():
    topics = [f"t{number:02}" for number in range(12)]
    needed_ms = 12 * GOES_BACK_MS + SETTLES_MS
    master = with_topics(*topics)
    async with guarded_sets(master) as sets:
        fail_over(sets, master, topics=topics)
        await sent_back(master, 12)
        assert needed_ms > WITHIN_MS
        sets.clock.pass_ms(needed_ms)
        await sent_back(master, 24)
        master.members = ["c1", "c2"]
        sets.clock.pass_ms(needed_ms)
        await sent_back(master, 36)
        sets.clock.pass_ms(LAST_LOOK_MS + needed_ms)
        await eventually(lambda: not sets.guarding.awaiting_members)
        (line,) = sets.events("members_not_reset")
    # The second member came after all that two times need.
    assert "members were not sent back 2 times" in line["error"]
    assert line["topics"] == topics


async def test_members_that_were_sent_back_once_when_the_time_is_over_are_reported():
    topics = [f"t{number:02}" for number in range(WITHIN_MAX_MS // GOES_BACK_MS)]
    master = with_topics(*topics)
    async with guarded_sets(master) as sets:
        fail_over(sets, master, topics=topics)
        await sent_back(master, len(topics))
        sets.clock.pass_ms(WITHIN_MAX_MS)
        await eventually(lambda: not sets.guarding.awaiting_members)
    (line,) = sets.events("members_not_reset")
    assert (times_sent_back(master), line["topics"]) == (len(topics), topics)


async def test_members_that_have_left_before_the_time_is_over_are_not_reported():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        master.clients = {}
        sets.clock.pass_ms(GONE_BACK_MS)
        await looked_again(master)
        sets.clock.pass_ms(WITHIN_MS)
        await eventually(lambda: not sets.guarding.awaiting_members)
    assert sets.events("members_not_reset") == []


async def test_repeated_run_has_nothing_to_do_where_the_first_one_has_sent_the_members_back():
    master = a_former_release({KEY: {0: 60}})

    def fail_once(code):
        if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET:
            master.then = lambda _: None
            master.first = {BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: [ResponseCode.SYSTEM_ERROR]}

    async with guarded_sets(master, tail=Tail.LOST) as sets:
        master.then = fail_once
        fail_over(sets, master, read=95)
        first = await sets.ended()
        sets.clock.pass_ms(30_000)
        second = await sets.ended(2)
        assert (first.result, second.result, second.is_recent) == ("failed", "complete", False)
        assert [each.outcome for each in second.offsets] == []
        await sent_back(master)
    assert master.written[0] == ("commit", KEY, 0, 95)


async def test_repeated_run_awaits_members_where_the_first_one_was_soon_after_the_promotion():
    master = a_former_release({})
    master.first = {BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: [ResponseCode.SYSTEM_ERROR]}
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sets.ended()
        sets.clock.pass_ms(30_000)
        second = await sets.ended(2)
        assert ([each.outcome for each in second.offsets], second.is_recent) == (["not_reset"], False)
        master.clients = {"g": "pulls"}
        await sent_back(master)


async def test_members_are_sent_back_at_all_topics_that_the_first_run_or_the_repeated_one_has_set():
    master = with_topics("t1", "t2")
    del master.offsets["t2@g"]
    busy = [refusal(ResponseCode.SYSTEM_BUSY)] * 21

    def answer(code, fields):
        is_refused = code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET and fields["topic"] == "t2" and busy
        return busy.pop() if is_refused else master(code, fields)

    master.peer.answer = answer
    async with guarded_sets(master) as sets:
        sets.elect(OLD_ADDRESS, 1, broker_id=1)
        sets.mirror.read({"t1@g": {0: 95}, "t2@g": {0: 130}})
        sets.elect(master.peer.address, 2)
        await sets.ended()
        sets.clock.pass_ms(30_000)
        await sets.ended(2)
        await eventually(lambda: set(topics_sent_back(master)) == {"t1", "t2"})
    committed = {each for each in master.written if each[0] == "commit"}
    assert {("commit", "t1@g", 0, 95), ("commit", "t2@g", 0, 100)} <= committed


@pytest.mark.parametrize("is_answered", [True, False])
async def test_members_are_reset_as_they_come_where_the_broker_was_busy_or_did_not_answer(is_answered):
    master = a_master({KEY: {0: 60}})
    code, first = BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET, [refusal(ResponseCode.SYSTEM_BUSY)] * 21

    def answer(received, fields):
        if received != code or not first:
            return master(received, fields)
        if is_answered:
            return first.pop()
        first.clear()
        master.peer.drop_connections()
        return NOTHING

    master.peer.answer = answer
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        run = await sets.ended()
        assert [each.outcome for each in run.offsets] == ["reset_missing" if is_answered else "unverified"]
        await eventually(lambda: RESET in master.written)
        await eventually(lambda: not sets.guarding.awaiting_members)
    assert sets.counters.member_resets.counts()[("sent",)] == 1


async def test_members_are_sent_back_where_the_broker_did_not_answer_the_commit_before():
    master = a_former_release({KEY: {0: 60}})
    first = [NOTHING]

    def answer(code, fields):
        found = master(code, fields)
        if code != BrokerRequestCode.UPDATE_CONSUMER_OFFSET or not first:
            return found
        master.peer.drop_connections()
        return first.pop()

    master.peer.answer = answer
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        run = await sets.ended()
        assert [each.outcome for each in run.offsets] == ["not_reset"]
        await sent_back(master)


async def test_run_at_another_master_ends_what_is_awaited_at_the_former_one():
    master, third = a_former_release({KEY: {0: 60}}), a_master({KEY: {0: 60}}, epochs=((1, 0), (2, None), (3, None)))
    third.silent = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET
    async with guarded_sets(master, third) as sets:
        fail_over(sets, master)
        await sent_back(master)
        sets.elect(third.peer.address, 3, broker_id=3)
        await eventually(lambda: third.peer.count(third.silent))
        assert not sets.guarding.awaiting_members
        third.silent = None
        third.peer.drop_connections()
        await sets.ended(2)


# Who is left


async def test_group_that_somebody_has_set_back_since_is_left():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        master.offsets[KEY][0] = 10
        sets.clock.pass_ms(GONE_BACK_MS)
        await eventually(lambda: sets.events("members_not_reset"))
        (line,) = sets.events("members_not_reset")
    assert "queue 0 of orders was set back to 10" in line["error"]
    assert (times_sent_back(master), master.offsets[KEY][0]) == (1, 10)
    assert sets.counters.member_resets.counts()[("refused",)] == 1


async def test_topic_that_somebody_has_set_back_keeps_no_other_topic_from_being_sent_back():
    master = with_topics("t1", "t2")
    async with guarded_sets(master) as sets:
        fail_over(sets, master, topics=("t1", "t2"))
        await sent_back(master, 2)
        master.offsets["t1@g"][0] = 10
        sets.clock.pass_ms(2 * GOES_BACK_MS + SETTLES_MS)
        await sent_back(master, 3)
        await eventually(lambda: sets.events("members_not_reset"))
        (line,) = sets.events("members_not_reset")
    assert (line["topics"], line["error"]) == (["t1"], "queue 0 of t1 was set back to 10 by somebody else")
    assert topics_sent_back(master) == ["t1", "t2", "t2"]
    assert master.offsets["t1@g"] == {0: 10}


async def test_group_that_an_operator_has_reset_by_the_manager_since_is_left():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        queue = SetQueue(set_name(), EntryKey("orders", "g"), 0)
        sets.mirror.resets.note(queue, Reset(118, sets.clock.unix_ms()))
        sets.clock.pass_ms(GONE_BACK_MS)
        await eventually(lambda: sets.events("members_not_reset"))
    assert times_sent_back(master) == 1


async def test_clients_in_cpp_are_reported_once_and_keep_no_member_in_java_from_being_sent_back():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        master.members, master.languages = ["c1", "c2"], {"c2": "CPP"}
        sets.clock.pass_ms(GONE_BACK_MS)
        await sent_back(master, 2)
        sets.clock.pass_ms(GONE_BACK_MS)
        await looked_again(master)
        sets.clock.pass_ms(WITHIN_MS)
        await eventually(lambda: not sets.guarding.awaiting_members)
        (line,) = sets.events("members_not_reset")
    assert (line["topics"], line["error"]) == (
        ["orders"],
        "clients in CPP do not follow what this broker sends them: c2",
    )
    assert times_sent_back(master) == 2
    assert [each["members"] for each in sets.events("members_reset")] == [1, 1]


async def test_member_in_java_that_comes_to_clients_in_cpp_is_sent_back():
    master = a_former_release({KEY: {0: 60}})
    master.languages = {"c1": "CPP"}
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await eventually(lambda: sets.events("members_not_reset"))
        assert times_sent_back(master) == 0
        master.members = ["c1", "c2"]
        await sent_back(master)


async def test_pull_consumers_that_follow_no_broker_are_reported():
    master = a_former_release({KEY: {0: 60}})
    master.consume_type = "CONSUME_ACTIVELY"
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await eventually(lambda: sets.events("members_not_reset"))
        await eventually(lambda: not sets.guarding.awaiting_members)
        (line,) = sets.events("members_not_reset")
    assert "push consumers" in line["error"]
    assert times_sent_back(master) == 0


# Members that nobody could look at


async def the_report_once_the_time_is_over(sets):
    """Return the only line about members that were not sent back, and the error in it."""
    sets.clock.pass_ms(WITHIN_MS)
    await eventually(lambda: not sets.guarding.awaiting_members)
    (line,) = sets.events("members_not_reset")
    return line["topics"], line["error"].removeprefix("it is not known which members there are: ")


async def test_group_is_reported_where_the_broker_was_too_busy_to_show_its_members(monkeypatch):
    monkeypatch.setattr(master_queries, "PAUSE_S", 0.001)
    master = a_former_release({KEY: {0: 60}})
    code, master.pulled = BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST, {KEY: {3: 1}}
    master.first = {code: [ResponseCode.SYSTEM_BUSY] * 100_000}
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sets.ended()
        await looked_again(master)
        topics, why = await the_report_once_the_time_is_over(sets)
    assert (topics, why) == (["orders"], "code 2: no")
    assert times_sent_back(master) == 0


async def test_group_is_reported_where_no_message_was_stored_after_the_promotion():
    master = a_former_release({KEY: {0: 60}}, new=0)
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sets.ended()
        before = master.peer.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID)
        await eventually(lambda: master.peer.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID) > before + 5)
        found = await the_report_once_the_time_is_over(sets)
    assert found == (["orders"], "no message was found that was stored after the promotion")


async def test_group_is_reported_where_nobody_knew_who_is_master():
    master = a_former_release({KEY: {0: 60}})
    code = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET
    async with guarded_sets(master) as sets:

        def lose_the_controller(received):
            # The run has read what it had written.
            if received == code and master.peer.count(code) == 3:
                sets.masters.fresh = False

        master.then = lose_the_controller
        fail_over(sets, master)
        await eventually(lambda: sets.guarding.awaiting_members)
        found = await the_report_once_the_time_is_over(sets)
    assert found == (["orders"], "it was not known whether this broker is the master")


# Clusters without a controller


def start_without_controller(sets, master):
    """Let NameServers show a master that was started with a part of its log alone."""
    sets.elect(OLD_ADDRESS, None, broker_id=0)
    sets.clock.pass_ms(BOOT_MS - READ_MS - 10_000)
    sets.mirror.read({KEY: {0: 130}}, epoch=None)
    sets.clock.pass_ms(13_000)
    sets.elect(master.peer.address, None, broker_id=0)


async def test_nothing_is_written_to_a_broker_that_has_got_the_address_of_another_one_meanwhile():
    master = a_former_release({KEY: {0: 60}}, epochs=None)
    async with guarded_sets(master) as sets:
        start_without_controller(sets, master)
        await sent_back(master)
        written = len(master.written)
        master.options += "brokerName=other\n"
        sets.clock.pass_ms(GONE_BACK_MS)
        await eventually(lambda: not sets.guarding.awaiting_members)
        (line,) = sets.events("members_not_reset")
    assert (line["topics"], len(master.written)) == (["orders"], written)
    assert line["error"].endswith("is other by its own options (26), not b")


async def test_members_are_sent_back_once_the_broker_shows_its_name_again():
    master = a_former_release({KEY: {0: 60}}, epochs=None)
    master.options += "brokerName=b\n"
    async with guarded_sets(master) as sets:
        start_without_controller(sets, master)
        await sent_back(master)
        master.first = {RequestCode.GET_BROKER_CONFIG: [ResponseCode.SYSTEM_BUSY] * 3}
        sets.clock.pass_ms(GONE_BACK_MS)
        await sent_back(master, 2)
    assert master.first == {RequestCode.GET_BROKER_CONFIG: []}
    assert sets.events("members_not_reset") == []


# Brokers that fail


async def test_refusal_of_the_broker_is_reported_once_and_it_is_tried_again():
    master = a_former_release({KEY: {0: 60}})
    master.queues["orders", 1] = Queue(old=100, new=20)
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        for times in (1, 2):
            await eventually(lambda times=times: resets_requested(master) >= times)
            sets.clock.pass_ms(GONE_BACK_MS)
        (line,) = sets.events("members_not_reset")
        assert "queue 1" in line["error"]
        # The group has begun to read the new queue.
        master.offsets[KEY][1] = 100
        await sent_back(master)
    assert len(sets.events("members_not_reset")) == 1


async def test_topic_that_the_broker_refuses_keeps_no_later_one_from_being_sent_back():
    master = with_topics("t1", "t2", "t3")
    # It was added, and the group has no offset of it yet.
    master.queues["t1", 1] = Queue(old=100, new=20)
    async with guarded_sets(master) as sets:
        fail_over(sets, master, topics=("t1", "t2", "t3"))
        await sent_back(master, 2)
        sets.clock.pass_ms(3 * GOES_BACK_MS + SETTLES_MS)
        await sent_back(master, 4)
        # Nobody has to be sent back there any more.
        sets.clock.pass_ms(3 * GOES_BACK_MS + SETTLES_MS)
        master.offsets["t1@g"][1] = 100
        await sent_back(master, 5)
        (line,) = sets.events("members_not_reset")
        sent = [each["topics"] for each in sets.events("members_reset")]
    assert topics_sent_back(master) == ["t2", "t3", "t2", "t3", "t1"]
    assert line["topics"] == ["t1"]
    assert line["error"].startswith("t1: code 1: THE consumer offset is not exist in queue 1")
    assert sent[:2] == [["t2", "t3"]] * 2


async def test_topic_that_was_deleted_keeps_no_later_one_from_being_sent_back():
    master = with_topics("t1", "t2")
    async with guarded_sets(master) as sets:
        fail_over(sets, master, topics=("t1", "t2"))
        await sent_back(master, 2)
        del master.queues["t1", 0]
        sets.clock.pass_ms(2 * GOES_BACK_MS + SETTLES_MS)
        await sent_back(master, 3)
        await eventually(lambda: sets.events("members_not_reset"))
        (line,) = sets.events("members_not_reset")
    assert topics_sent_back(master) == ["t1", "t2", "t2"]
    assert line["topics"] == ["t1"]
    assert "code 17" in line["error"]


async def test_broker_that_is_busy_for_long_is_requested_again():
    master = a_former_release({KEY: {0: 60}})
    master.first = {BrokerRequestCode.QUERY_CONSUMER_OFFSET: [ResponseCode.SYSTEM_BUSY] * 30}
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
    assert sets.events("members_not_reset") == []


async def test_nothing_is_sent_while_nobody_knows_who_is_master_and_it_goes_on_afterwards():
    master = a_former_release({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sent_back(master)
        sets.masters.fresh = False
        sets.clock.pass_ms(GONE_BACK_MS)
        assert sets.guarding.awaiting_members
        assert times_sent_back(master) == 1
        sets.masters.fresh = True
        await sent_back(master, 2)


async def test_nothing_is_sent_to_a_broker_that_is_not_the_master_any_more():
    master, third = a_former_release({KEY: {0: 60}}), a_master({KEY: {0: 60}}, epochs=((1, 0), (2, None), (3, None)))
    async with guarded_sets(master, third) as sets:
        fail_over(sets, master)
        await sent_back(master)
        sets.elect(third.peer.address, 3, broker_id=3)
        sets.clock.pass_ms(GONE_BACK_MS)
        await eventually(lambda: not sets.guarding.awaiting_members)
    assert times_sent_back(master) == 1


# Groups of which nothing shows whether they pull


@pytest.mark.parametrize("shown", [{KEY: {0: 60}}, {}], ids=["older copy", "no copy"])
async def test_group_whose_members_come_after_the_run_is_reset_once_they_show_that_they_pull(shown):
    master = a_master(shown)
    master.clients = {}
    async with guarded_sets(master, tail=Tail.LOST) as sets:
        fail_over(sets, master, read=95)
        await sets.ended()
        written = list(master.written)
        master.clients = {"g": "pulls"}
        await eventually(lambda: not sets.guarding.awaiting_members)
    assert master.written[len(written) :] == [("commit", KEY, 0, 95), ("reset", KEY, 0, 95)]
    assert ("reset", KEY, 0, 95) not in written
    assert sets.counters.member_resets.counts()[("sent",)] == 1


async def test_member_without_queues_does_not_hide_that_its_group_pulls():
    master = a_master({KEY: {0: 60}})
    master.clients = {}
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sets.ended()
        master.clients, master.members, master.idle = {"g": "pulls"}, ["c0", "c1"], {"c0"}
        master.started = {"c0": (1, None)}
        await eventually(lambda: RESET in master.written)


async def test_group_whose_members_turn_out_to_pop_is_left():
    master = a_master({KEY: {0: 60}})
    master.clients = {}
    async with guarded_sets(master) as sets:
        fail_over(sets, master)
        await sets.ended()
        master.clients = {"g": "pops"}
        for _ in range(3):
            await eventually(lambda: master.peer.count(BrokerRequestCode.GET_CONSUMER_RUNNING_INFO))
            sets.clock.pass_ms(UNKNOWN_MS)
        assert sets.guarding.awaiting_members
    assert (master.written, sets.events("members_not_reset")) == ([], [])


async def test_group_that_may_pop_is_left_where_no_tail_is_lost():
    master = a_master({KEY: {0: 60}})
    master.clients = {}
    async with guarded_sets(master) as sets:
        fail_over(sets, master, read=80)
        await sets.ended()
        assert not sets.guarding.awaiting_members
    assert master.written == []


@pytest.mark.parametrize(("committed", "place"), [(None, 80), (120, 80), (30, 30)], ids=["nothing", "end", "beginning"])
async def test_group_that_had_no_offset_is_sent_to_the_saved_one_once_its_members_show_that_they_pull(committed, place):
    """They may have begun at the end of the queue, or somebody has committed less on purpose, which is not raised."""
    master = a_master({})
    master.clients = {}
    async with guarded_sets(master) as sets:
        fail_over(sets, master, read=80)
        run = await sets.ended()
        assert master.written == []
        master.offsets, master.clients = {} if committed is None else {KEY: {0: committed}}, {"g": "pulls"}
        await eventually(lambda: not sets.guarding.awaiting_members)
    assert [each.reason for each in run.offsets] == ["left_absent"]
    assert master.written == [("commit", KEY, 0, place), ("reset", KEY, 0, place)]


# Unclean elections


@pytest.mark.parametrize(("unclean", "written"), [(True, [COMMIT, RESET]), (False, [])])
async def test_positions_of_members_are_in_the_lost_tail_where_a_broker_out_of_sync_was_elected(unclean, written):
    # The mirror had read it before the tail began that is lost.
    master = a_master({KEY: {0: 100}}, old=100, new=20)
    async with guarded_sets(master, tail=Tail.KEPT) as sets:
        fail_over(sets, master, read=100, unclean=unclean)
        await sets.ended()
    assert master.written == written


async def test_unclean_election_counts_also_where_another_master_follows_before_the_run():
    second, third = a_master({KEY: {0: 100}}), a_master({KEY: {0: 100}}, epochs=((1, 0), (2, None), (3, None)))
    async with guarded_sets(second, third, tail=Tail.KEPT) as sets:
        sets.serves = False
        fail_over(sets, second, read=100, unclean=True)
        sets.elect(third.peer.address, 3, broker_id=3)
        sets.serves = True
        await sets.ended()
    assert (second.written, third.written) == ([], [COMMIT, RESET])
