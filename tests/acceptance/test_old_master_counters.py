"""After a planned switchover nothing of a client reaches the old master: its own counters of requests stand still."""

import collections
import re
import urllib.request

import pytest
from peers.processes import free_port
from peers.waiting import holds_for, wait_until
from role_addressed import SET, first_acknowledged, now_ms, role_addressed_sets
from switched import SwitchedSet

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

#: What clients send to masters only, as brokers of 5.x name it in their metrics.
SENDS = ("send_message", "send_message_v2", "send_batch_message")
COMMIT, LOCK = "update_consumer_offset", "lock_batch_mq"
#: An orderly consumer locks its queues each 20 s, consumers commit each 5 s.
WATCHED_S = 25
SESSIONS_END_S = 1
_COUNT = re.compile(r'^rocketmq_rpc_latency_milliseconds_count\{(.*request_code="(\w+)".*)\} (\S+)$', re.MULTILINE)


class CountingSet(SwitchedSet):
    """Its brokers show how many requests of each kind they have answered."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        count, self.brokers.brokers, self._ports = len(self.brokers.brokers), [], {}
        for number in range(count):
            port = free_port()
            broker = self.brokers.new_broker(f"m{number}", metricsExporterType="PROM", metricsPromExporterPort=port)
            self.brokers.brokers.append(broker)
            self._ports[broker.address] = port

    def answered(self, broker):
        """Return how many requests a broker has answered since its start, by kind."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[broker.address]}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        counts = collections.Counter()
        for _, kind, count in _COUNT.findall(text):
            counts[kind] += int(float(count))
        return counts


def test_after_a_switchover_no_send_commit_or_lock_reaches_the_old_master(tmp_path):
    with role_addressed_sets(tmp_path, CountingSet) as begin:
        site = begin()
        load = site.load()
        traffic = site.lab.traffic("orderly", namesrv=[site.namesrv.address])
        traffic.receive("c", topic=SET, group="g", kind="orderly", poll_ms=30_000)
        old = site.master()

        def has_worked():
            counts = site.answered(old)
            return counts[COMMIT] > 2 and counts[LOCK] > 0 and sum(counts[each] for each in SENDS) > 100

        wait_until(has_worked, seconds=60, what="sends, commits and locks at the first master")
        since_ms = now_ms()
        done = site.switch_over(reason="a test")
        assert done["phase"] == "DONE", done
        first_acknowledged(load, since_ms, not_by=old)
        new = site.master()
        assert new is not old

        def of_clients(broker):
            counts = site.answered(broker)
            return {"sends": sum(counts[each] for each in SENDS), COMMIT: counts[COMMIT], LOCK: counts[LOCK]}

        # What has arrived before its session ended is answered by now.
        wait_until(lambda: now_ms() - since_ms > SESSIONS_END_S * 1000, seconds=10, what="sessions have ended")
        before, before_at_new = of_clients(old), of_clients(new)
        holds_for(lambda: of_clients(old) == before, seconds=WATCHED_S, what=f"the old master has answered {before}")
        after_at_new = of_clients(new)
        assert all(after_at_new[each] > before_at_new[each] for each in before), (before_at_new, after_at_new)
        load.stop()
        assert load.failures() == []
