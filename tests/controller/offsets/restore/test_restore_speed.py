"""As many queues as one operation takes are restored within the time that operators are promised."""

import pytest
from fakes.offset_broker import BOOT_MS, OffsetBroker
from peers.figures import print_figures
from restore_site import restore_site

from controller.offsets.restore.values import RESTORED_MAX
from remoting.clock import SystemClock

BROKERS, GROUPS, QUEUES = 5, 125, 16
PROMISED_S = 30


@pytest.mark.soak
@pytest.mark.parametrize("moment", [BOOT_MS - 60_000, BOOT_MS + 60_000], ids=["proved", "same_run"])
# A message of each queue is looked at.
@pytest.mark.parametrize("topics", [1, GROUPS], ids=["few_queues", "own_queues"])
async def test_ten_thousand_queues_are_restored_in_30_s(tmp_path, capsys, moment, topics):
    assert BROKERS * GROUPS * QUEUES == RESTORED_MAX
    brokers = [OffsetBroker(f"broker-{number}") for number in range(BROKERS)]
    entries = [f"orders{group % topics}@g{group}" for group in range(GROUPS)]
    for each in brokers:
        each.topics = {f"orders{topic}": dict.fromkeys(range(QUEUES), (0, 1000)) for topic in range(topics)}
        each.offsets = {entry: dict.fromkeys(range(QUEUES), 10) for entry in entries}
        each.online = {f"g{group}": "CLUSTERING" for group in range(0, GROUPS, 2)}
    async with restore_site(tmp_path, *brokers) as site:
        saved = {entry: dict.fromkeys(range(QUEUES), 500) for entry in entries}
        site.mirror.by_set = {each.name: saved for each in brokers}

        clock = SystemClock()
        began_ms = clock.now_ms()
        done = await site.restore(moment)
        took_s = (clock.now_ms() - began_ms) / 1000

    print_figures(capsys, f"{RESTORED_MAX} queues of {BROKERS} brokers: {took_s:.1f} s")
    assert done.counts == {"restored": RESTORED_MAX}
    assert took_s <= PROMISED_S
