"""Lines 20, 22, 23, 26 and 27 of the checklist: what a controller answers, and what an operator does with mqadmin.

Brokers are hand-made here: nothing of it depends on messages.
"""

import contextlib
import itertools
import socket
from functools import partial

import pytest
from hand_made import APPLY_BROKER_ID, HandMadeBroker
from lengths import everywhere
from peers.servers import CLUSTER
from peers.waiting import wait_until
from peers.wire import SUCCESS, frame
from replicated import VERY_LONG_S, Moment
from verdicts import PATIENCE

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

FENCED_MASTER_EPOCH = 2000
FENCED_SYNC_STATE_SET_EPOCH = 2001
INVALID_MASTER = 2002
METADATA_NOT_EXIST = 2008
ELECT_MASTER_FAILED = 2012
BROKER_ID_INVALID = 2014

_names = itertools.count()


@pytest.fixture
def name():
    """A set that no other test knows."""
    return f"hand{next(_names)}"


@pytest.fixture
def controller(stage):
    return stage.controller()


@pytest.fixture
def new_broker(controller, name):
    """Make brokers of one set that are closed after the test."""
    with contextlib.ExitStack() as stack:

        def made(**settings):
            broker = HandMadeBroker(controller.address, name, **settings)
            stack.callback(broker.die)
            return broker

        yield made


@pytest.fixture
def mqadmin(stage, controller):
    """Run a command of mqadmin 5.5.0 without any NameServer."""
    tool = stage.lab.mqadmin()
    # The first command loads classes, for longer than a request may take on a busy machine.
    tool.run("getControllerMetaData", "-a", controller.address, namesrv=[stage.namesrv.address], seconds=60)
    return lambda *words: tool.run(*words, namesrv=[stage.namesrv.address], seconds=60)


def a_set_of(new_broker, count):
    """Return brokers of which the first leads and all are in sync; master epoch 1, SyncStateSet epoch 2."""
    brokers = [new_broker().join() for _ in range(count)]
    assert brokers[0].stand().code == SUCCESS
    everybody = {broker.broker_id for broker in brokers}
    assert brokers[0].report(everybody, master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
    return brokers


def elect_by_tool(mqadmin, controller, name, broker_id):
    return mqadmin("electMaster", "-a", controller.address, "-b", str(broker_id), "-bn", name, "-c", CLUSTER)


@everywhere
def test_stale_sync_state_set_report_changes_nothing(run, controller, name, new_broker, mqadmin, line):
    with line("20", "old reports of the SyncStateSet") as it:
        first, second = a_set_of(new_broker, 2)
        printed = elect_by_tool(mqadmin, controller, name, 2)
        # The tool cannot read what a Java controller answers to it.
        assert f"#BrokerMasterAddr\t{second.address}" in printed or not run.is_ours, printed
        moved = controller.set_state(name)
        assert (moved.master, moved.master_epoch, moved.sync_state_set_epoch) == (2, 2, 3)
        wait_until(
            lambda: all(notices and notices[-1]["masterEpoch"] == "2" for notices in (first.notices, second.notices)),
            seconds=VERY_LONG_S,
            what="both are notified of the election",
        )
        # What the first said last, once more.
        assert first.report({1, 2}, master_epoch=1, sync_state_set_epoch=1).code == INVALID_MASTER
        assert second.report({1, 2}, master_epoch=1, sync_state_set_epoch=3).code == FENCED_MASTER_EPOCH
        refused = second.report({1, 2}, master_epoch=2, sync_state_set_epoch=2)
        assert (refused.code, refused.fields.get("newSyncStateSetEpoch", "0")) == (FENCED_SYNC_STATE_SET_EPOCH, "0")
        assert controller.set_state(name) == moved
        it.saw("2002, 2000, 2001, nothing changed")


@everywhere
def test_set_whose_only_broker_in_sync_fails_has_no_master_until_it_returns(
    run, controller, name, new_broker, mqadmin, line
):
    with line("7+", "the same with hand-made brokers") as it:
        master, stale = new_broker().join(), new_broker().join()
        assert master.stand().code == SUCCESS
        before = controller.set_state(name)
        killed = Moment()
        master.die()
        wait_until(
            lambda: controller.set_state(name).master is None,
            seconds=10 * PATIENCE,
            what=lambda: f"no master; now {controller.set_state(name)}",
        )
        it.took("no master", killed.elapsed(), limit=None)
        printed = mqadmin("getSyncStateSet", "-a", controller.address, "-b", name)
        assert "#MasterBrokerId\tnull" in printed, printed
        assert stale.stand().code == ELECT_MASTER_FAILED
        assert controller.set_state(name).master_epoch > before.master_epoch
        again = new_broker()
        again.broker_id = master.broker_id
        assert again.register().code == SUCCESS
        again.live()

        def leads():
            # It may be elected unasked a moment before, and is refused then as the master that it is.
            again.stand()
            return controller.set_state(name).master == again.broker_id

        wait_until(leads, seconds=VERY_LONG_S, what="the old master leads again")
        it.saw("2012 for the other, then the old one leads")


@everywhere
def test_repeated_application_for_an_id_gets_the_same_id(run, controller, name, new_broker, line):
    with line("22", "the answer to 1013 is lost") as it:
        first = new_broker()
        first.broker_id = 1
        words = first.identity | {"appliedBrokerId": "1", "registerCheckCode": f"{first.address};{first.check_code}"}
        with socket.create_connection(controller.address.split(":")) as deaf:
            deaf.sendall(frame(APPLY_BROKER_ID, words))
        wait_until(lambda: controller.set_state(name), seconds=VERY_LONG_S, what="the set is known")
        assert first.apply_id().code == SUCCESS
        assert first.apply_id(check_code="another").code == BROKER_ID_INVALID
        later = [new_broker().join() for _ in range(2)]
        assert [broker.broker_id for broker in later] == [2, 3]
        assert later[0].stand().code == SUCCESS
        assert controller.set_state(name).members == {1, 2, 3}
        it.saw("0 for the same code, 2014 for another, later ids 2 and 3")


@everywhere
def test_operator_can_clean_failed_brokers_and_others_only_with_the_option(
    run, controller, name, new_broker, mqadmin, line
):
    def clean(*words, cluster=CLUSTER):
        printed = mqadmin("cleanBrokerMetadata", "-a", controller.address, "-bn", name, "-c", cluster, *words)
        return "success" if "success" in printed else next(iter(printed.split("CODE: ")[1].split()), printed)

    with line("23", "cleanBrokerMetadata", java_fails="wrong cluster") as it:
        brokers = a_set_of(new_broker, 3)
        brokers[1].die()
        wait_until(lambda: controller.set_state(name).alive == {1, 3}, seconds=VERY_LONG_S, what="the second is dead")
        assert clean("-b", "2") == "success"
        state = controller.set_state(name)
        assert state.members == {1, 3}
        assert clean("-b", "3") == "2009"
        assert clean("-b", "3", cluster="Elsewhere") == "2009", "a wrong cluster name lets living brokers be cleaned"
        assert clean() == "2009"
        assert controller.set_state(name) == state
        assert clean("-l") == "success"
        assert controller.replica_info(name).code == METADATA_NOT_EXIST
        new_broker().join()
        assert clean() == "success"
        assert controller.set_state(name) is None
        it.saw("dead 0, living 2009, wrong cluster 2009, whole set only with -l or without master")


def another_leads(controller, broker):
    """Let a broker ask for a master, as each does every 5 s where there is none; tell whether another leads."""
    broker.stand()
    return controller.set_state(broker.name).master not in (1, None)


@everywhere
def test_longer_log_is_elected_however_much_longer_it_is(run, stage, name, line):
    with (
        line("26", "unclean: larger log wins", java_fails="the shorter log leads") as it,
        contextlib.ExitStack() as stack,
    ):
        controller = stage.controller(enableElectUncleanMaster=True)

        def new_broker(broker_name, **settings):
            broker = HandMadeBroker(controller.address, broker_name, **settings).join()
            stack.callback(broker.die)
            return broker

        logs = {"by-offset": [(1, 100), (1, 100 + 3 * 2**30)], "by-epoch": [(1, 3 * 2**30), (2, 100)]}
        for case, stale in logs.items():
            its_name = f"{name}-{case}"
            master = new_broker(its_name)
            assert master.stand().code == SUCCESS
            others = [new_broker(its_name, epoch=epoch, max_offset=max_offset) for epoch, max_offset in stale]
            assert controller.set_state(its_name).alive == {1, 2, 3}
            killed = Moment()
            master.die()
            wait_until(partial(another_leads, controller, others[0]), seconds=VERY_LONG_S, what="another master")
            it.took(case, killed.elapsed(), limit=None)
            assert controller.set_state(its_name).master == 3, f"{case}: the shorter log leads"


@everywhere
def test_setting_is_changed_and_stored_unless_it_is_blacklisted(run, controller, mqadmin, line):
    def settings():
        printed = mqadmin("getControllerConfig", "-a", controller.address)
        return dict([part.strip() for part in row.split("=", 1)] for row in printed.splitlines() if "=" in row)

    def update(key, value):
        return mqadmin("updateControllerConfig", "-a", controller.address, "-k", key, "-v", value)

    with line("27", "getControllerConfig, updateControllerConfig") as it:
        before = settings()
        assert before["enableElectUncleanMaster"] == "false"
        assert "success" in update("enableElectUncleanMaster", "true")
        assert settings()["enableElectUncleanMaster"] == "true"
        for key in ("configStorePath", "configBlackList", "rocketmqHome"):
            assert "CODE: 16" in update(key, "elsewhere")
        assert {key: settings().get(key) for key in ("configStorePath",)} == {
            "configStorePath": before.get("configStorePath")
        }
        it.saw("16 for black-listed keys")
        if run.is_ours:
            controller.process.kill()
            controller.start()
            assert settings()["enableElectUncleanMaster"] == "true"
            it.saw("still set after kill -9 and restart")
        else:
            assert "enableElectUncleanMaster=true" in controller.config_store.read_text()
            it.saw("in its file")
