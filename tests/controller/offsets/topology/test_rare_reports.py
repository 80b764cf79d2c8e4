"""A peer that fails again and again is named once a minute, each on its own."""

from controller.offsets.topology.rare_reports import NAMED_AGAIN_MS, RareReports


def test_each_peer_is_named_once_a_minute():
    reports = RareReports()
    failures = [(peer, now_ms) for now_ms in (0, 1, NAMED_AGAIN_MS - 1, NAMED_AGAIN_MS) for peer in ("a", "b")]
    assert [each for each in failures if reports.is_due(*each)] == [
        ("a", 0),
        ("b", 0),
        ("a", NAMED_AGAIN_MS),
        ("b", NAMED_AGAIN_MS),
    ]
