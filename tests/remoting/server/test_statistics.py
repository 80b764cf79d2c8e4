from remoting.protocol.codes import RequestCode
from remoting.server.observer import CloseReason, ConnectionKind, Rejection
from remoting.server.statistics import LATENCY_BOUNDS_NS, UNKNOWN_CODE, ServerStatistics, known_code


def test_every_known_label_is_there_at_zero_before_anything_happened():
    statistics = ServerStatistics()
    assert statistics.connections == dict.fromkeys(ConnectionKind, 0)
    assert statistics.closed == dict.fromkeys(CloseReason, 0)
    assert statistics.rejected == dict.fromkeys(Rejection, 0)


def test_unknown_request_codes_share_one_key():
    statistics = ServerStatistics()
    for code in range(10_000, 20_000):
        statistics.count_finished(code, 3)
        statistics.latencies_of(code).add(1, 1)
    assert statistics.finished() == {(UNKNOWN_CODE, 3): 10_000}
    assert list(statistics.latencies) == [UNKNOWN_CODE]
    assert [known_code(code) for code in RequestCode] == list(RequestCode)


def test_prepared_responses_count_as_successes():
    statistics = ServerStatistics()
    statistics.prepared[105] += 2
    statistics.count_finished(105, 0)
    statistics.count_finished(105, 17)
    assert statistics.finished() == {(105, 0): 3, (105, 17): 1}


def test_a_latency_falls_into_the_first_bucket_that_holds_it():
    statistics = ServerStatistics()
    assert LATENCY_BOUNDS_NS[0] == 250_000
    assert LATENCY_BOUNDS_NS[-1] == 2_500_000_000
    for duration_ns, count in ((0, 1), (250_000, 2), (250_001, 4), (2_500_000_000, 8), (2_500_000_001, 16)):
        statistics.latencies_of(105).add(duration_ns, count)
    latencies = statistics.latencies[105]
    assert latencies.buckets == [3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 16]
    assert latencies.total_ns == 2 * 250_000 + 4 * 250_001 + 8 * 2_500_000_000 + 16 * 2_500_000_001
