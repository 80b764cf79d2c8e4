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
async def test_ten_thousand_queues_are_restored_in_30_s(tmp_path, capsys, moment):
    assert BROKERS * GROUPS * QUEUES == RESTORED_MAX
    brokers = [OffsetBroker(f"broker-{number}") for number in range(BROKERS)]
    for each in brokers:
        each.topics["orders"] = dict.fromkeys(range(QUEUES), (0, 1000))
        each.offsets = {f"orders@g{group}": dict.fromkeys(range(QUEUES), 10) for group in range(GROUPS)}
        each.online = {f"g{group}": "CLUSTERING" for group in range(0, GROUPS, 2)}
    async with restore_site(tmp_path, *brokers) as site:
        saved = {f"orders@g{group}": dict.fromkeys(range(QUEUES), 500) for group in range(GROUPS)}
        site.mirror.by_set = {each.name: saved for each in brokers}

        clock = SystemClock()
        began_ms = clock.now_ms()
        done = await site.restore(moment)
        took_s = (clock.now_ms() - began_ms) / 1000

    print_figures(capsys, f"{RESTORED_MAX} queues of {BROKERS} brokers: {took_s:.1f} s")
    assert done.counts == {"restored": RESTORED_MAX}
    assert took_s <= PROMISED_S
