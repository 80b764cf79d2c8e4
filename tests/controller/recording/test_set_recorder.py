import json
from datetime import UTC, datetime

from controller_builders import SET, a_set, last_heartbeat
from fakes.recorded_rows import Unobserved

from controller.failover.events import BrokerFailed
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import BrokerFailure, ProbeOutcome, SuspicionReason
from history.recorder import Recorder, RecorderIdentity
from remoting.clock import SystemClock
from serving.config.options import LONG_MAX


def test_a_failure_is_dated_when_it_was_detected_not_when_it_was_recorded(tmp_path):
    clock = SystemClock()
    identity = RecorderIdentity("host:9878", "controller", "1.0", "127.0.0.1:9878")
    recorder = Recorder(tmp_path, identity, clock, Unobserved(), LONG_MAX)
    recorder.start()
    judged_ms = clock.now_ms() - 400
    dead = BrokerFailure(
        BrokerKey(SET, 1),
        SuspicionReason.CLOSED,
        ProbeOutcome.REFUSED,
        last_heartbeat(last_contact_ms=judged_ms - 700),
        judged_ms - 20,
        judged_ms,
    )

    before_us = clock.unix_us()
    ago_ms = clock.now_ms() - judged_ms
    for of_failure in BrokerFailed(key=dead.key, broker_set=a_set(), failure=dead, ago_ms=ago_ms).rows():
        recorder.enqueue(of_failure)
    after_us = clock.unix_us()
    recorder.close()

    (row,) = [
        json.loads(line)
        for path in tmp_path.rglob("*.jsonl")
        for line in path.read_text().splitlines()
        if '"failure_detected"' in line
    ]
    found_us, heartbeat_us = (
        round(datetime.fromisoformat(row[name]).replace(tzinfo=UTC).timestamp() * 1_000_000)
        for name in ("event_time", "last_heartbeat_time")
    )
    # Of its moment and of the recording each is known to the ms.
    assert before_us - 402_000 <= found_us <= after_us - 399_000
    assert found_us - heartbeat_us == 700_000
