"""One master is read: in which order, and who is not read."""

import pytest
from fakes.clock import FakeClock
from read_brokers import Brokers, ReadBroker
from set_builders import SET, a_master

from offsets.at_broker import AtBroker, NotServing, OtherBroker
from offsets.readings.readings import MasterReader, read_offsets
from remoting.admin.client import AdminClient, AdminLimits
from remoting.protocol.errors import BodyError, Refused

ADDRESS = a_master().address


class Site:
    def __init__(self, *, epoch=5):
        self.broker = ReadBroker(SET)
        self.broker.epochs = None if epoch is None else [(1, 0), (epoch, 100)]
        self.broker.offsets = {"orders@g": {0: 1}}
        self.broker.write(6)
        self.admin = AdminClient(Brokers(**{ADDRESS: self.broker}), AdminLimits())
        self.reader = MasterReader(self.admin, FakeClock(), a_master(epoch=epoch))

    async def read(self, *, is_log_known=True):
        return await self.reader.read(is_log_known=is_log_known)


async def test_the_end_of_the_log_is_read_before_the_offsets_and_after_them():
    site = Site()
    head, text = await site.read()
    assert site.broker.asked == [28, 26, 43, 907, 1007]
    site.broker.asked.clear()
    # Between the first end and the offsets a message comes.
    before = site.broker.end
    site.broker.before = lambda code: site.broker.write(1) if code == 43 else None
    head, text = await site.read()

    assert site.broker.asked[:4] == [907, 43, 907, 1007]
    assert (head.first_end, head.second_end) == (before, site.broker.end)
    assert text == b'"orders@g":{0:1}'
    assert [row.epoch for row in head.epochs] == [1, 5]


async def test_a_log_of_which_nothing_is_known_is_asked_for_its_first_messages():
    site = Site()
    head, _ = await site.read(is_log_known=False)
    assert head.fingerprints[0] == site.broker.message(0)


async def test_a_broker_that_started_again_while_it_was_read_is_not():
    site = Site()

    def restart(code):
        site.broker.boot_ms += code == 43

    site.broker.before = restart
    with pytest.raises((NotServing, OtherBroker), match="started again"):
        await site.read()


async def test_a_broker_that_started_again_before_its_end_was_read_again_is_not():
    site = Site()
    await site.read()
    ends = []

    def restart(code):
        ends.extend([code] * (code == 907))
        site.broker.boot_ms += len(ends) == 2 and code == 907

    site.broker.before = restart
    with pytest.raises(NotServing, match="started again"):
        await site.read()


async def test_a_broker_that_reports_to_be_no_master_is_not_read():
    site = Site(epoch=None)
    await site.read()
    site.broker.broker_id = 2
    with pytest.raises(NotServing, match="907"):
        await site.read()


async def test_a_broker_that_was_updated_reports_its_end_in_short():
    site = Site(epoch=None)
    site.broker.refused[907] = 3, "not supported"
    await site.read()
    await site.read()
    site.broker.refused.clear()
    site.broker.boot_ms += 1
    await site.read()
    site.broker.asked.clear()
    await site.read()
    assert site.broker.asked[:3] == [907, 43, 907]


async def test_a_restart_between_two_readings_is_another_log():
    site = Site()
    await site.read()
    site.broker.boot_ms += 1
    site.broker.write(1)
    head, _text = await site.read()

    # Its name is asked for again; where the log ended before says nothing of it.
    assert site.broker.asked.count(26) == 2
    assert head.fingerprints == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"broker_id": 2}, "907"),
        ({"epochs": [(1, 0), (6, 100)]}, "last epoch 6"),
        ({"name": "broker-b"}, "of broker-b"),
        ({"options": {"brokerName": "broker-b"}}, "is broker-b by its own options"),
    ],
)
async def test_a_broker_that_is_no_master_by_its_own_answer_is_not_read(change, problem):
    site = Site()
    for name, value in change.items():
        setattr(site.broker, name, value)
    with pytest.raises((NotServing, OtherBroker), match=problem):
        await site.read()


async def test_a_slave_without_a_controller_is_not_read():
    site = Site(epoch=None)
    site.broker.options["brokerRole"] = "SLAVE"
    with pytest.raises((NotServing, OtherBroker), match="slave"):
        await site.read()


@pytest.mark.parametrize("epoch", [5, None])
async def test_a_broker_without_epochs_that_denies_its_options_is_read(epoch):
    site = Site(epoch=epoch)
    site.broker.epochs = None
    site.broker.refused[26] = 16, "no permission"
    head, _text = await site.read()
    assert head.epochs is None


async def test_a_busy_broker_is_read_another_time():
    for code in (26, 1007, 907):
        site = Site()
        site.broker.refused[code] = 2, "busy"
        with pytest.raises((Refused, NotServing), match="busy"):
            await site.read()
        site.broker.refused.clear()
        await site.read()
        site.broker.asked.clear()
        await site.read()
        assert 28 not in site.broker.asked


async def test_an_answer_without_offsets_or_without_an_end_of_the_log_is_none(monkeypatch):
    site = Site()
    site.broker.end = "?"
    with pytest.raises(BodyError, match="begins and ends"):
        await site.read()
    monkeypatch.setattr("read_brokers.offsets_body", lambda table: b"{}")
    site = Site()
    with pytest.raises(BodyError, match="without offsetTable"):
        await site.read()
    with pytest.raises(BodyError, match="without offsetTable"):
        await read_offsets(AtBroker(site.admin, a_master().set_name, ADDRESS))


async def test_a_log_without_a_file_begins_at_0():
    site = Site()
    site.broker.begin = -1
    assert (await AtBroker(site.admin, a_master().set_name, ADDRESS).runtime())[1] == 0


@pytest.mark.parametrize("refusal", [(3, "not supported"), (1, "DLedger replicates"), (16, "no permission")])
async def test_a_broker_that_does_not_report_its_end_in_short_is_asked_for_all_of_its_state(refusal):
    site = Site()
    site.broker.refused[907] = refusal
    await site.read()
    site.broker.asked.clear()
    site.broker.write(1)
    head, _ = await site.read()
    assert site.broker.asked[:4] == [28, 43, 28, 1007]
    assert head.second_end == site.broker.end
