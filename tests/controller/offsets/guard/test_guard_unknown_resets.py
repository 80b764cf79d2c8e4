"""What was set back by an operation that cannot be read is not undone."""

from fake_master import FakeMaster
from guard_logs import Queue
from guarded_sets import guarded_sets

from controller.offsets.app import guarding
from controller.offsets.mirror.regressions import EarlierResets

KEY = "orders@g"


async def test_no_queue_is_raised_where_an_operation_cannot_be_read_that_the_mirror_may_not_have_seen(monkeypatch):
    monkeypatch.setattr(guarding, "LOOK_S", 0.02)
    master = FakeMaster({("orders", 0): Queue(old=100, new=20)}, {KEY: {0: 60}}, epochs=((1, 0), (2, None)))
    master.clients = {"g": "pulls"}
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.clock.pass_ms(2000)
        sets.mirror.resets.note_earlier(EarlierResets(unknown_unix_ms=sets.clock.unix_ms()))
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == []
    assert [(each.action, each.reason, each.offset) for each in run.offsets] == [("report", "may_be_reset", 0)]
