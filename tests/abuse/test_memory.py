"""The same abuse again and again on one server: what it took the first time is enough for the next times."""

import zlib
from itertools import pairwise

import pytest
from crowd import Crowd, a_query, need_files, push, read_answers
from peers.wire import REGISTER_BROKER, frame

ROUNDS = 4
#: Registrations of 16 KB that are there at once, and what they may take: one body, its pieces, and what is kept freed.
INFLATIONS = 40
INFLATIONS_KIB_MAX = 120 * 1024
#: What is never given back grows by all that the first round took; a machine's noise is less, in one of the rounds.
SHARE_MAX = 1 / 4


def unread_answers(served, crowd):
    queries = a_query("x" * 900) * 2000
    for each in crowd.connect(40, receive_bytes=16 * 1024):
        push(each, queries)
    served.wait_for_metric("connections_paused", lambda paused: paused == 40)


def unfinished_frames(served, crowd):
    begun = frame(REGISTER_BROKER, body=bytes(1024 * 1024))[:-1]
    for each in crowd.connect(40):
        each.sendall(begun)
    served.wait_for_metric("partial_frame_bytes", lambda unfinished: unfinished == 40 * len(begun))


def connections(served, crowd):
    need_files(2000)
    for each in crowd.connect(2000):
        each.sendall(a_query())
    for each in crowd.sockets:
        read_answers(each, 1)


@pytest.mark.parametrize("abuse", [unread_answers, unfinished_frames, connections])
def test_memory_that_abuse_took_is_there_for_the_next_abuse(serve, print_figures, abuse):
    """Compared between rounds: what the C library keeps of freed memory, on purpose, is more than all of this takes."""
    served = serve(serverSocketSndBufSize=64 * 1024)
    before_kib = served.memory_kib()
    most_kib = []
    while len(most_kib) < ROUNDS:
        with Crowd(served.port) as crowd:
            abuse(served, crowd)
            most_kib.append(served.memory_kib())
        for kind in ("client", "broker", "unknown"):
            served.wait_for_metric("connections", lambda open_ones: open_ones == 0, kind=kind)
    first_kib = most_kib[0] - before_kib
    grown_kib = [later - earlier for earlier, later in pairwise(most_kib)]
    print_figures(abuse=abuse.__name__, first_kib=first_kib, grown_kib=grown_kib)
    assert first_kib > 0
    assert min(grown_kib) < SHARE_MAX * first_kib
    served.assert_unharmed()


def test_compressed_registrations_that_wait_or_were_refused_hold_no_memory(serve, print_figures):
    """Each inflates to 16 MiB, one at a time: what is refused is given back before the next is begun."""
    served = serve()
    identity = {"brokerName": "b", "brokerAddr": "10.0.0.1:1", "clusterName": "C", "brokerId": "0"}
    request = frame(REGISTER_BROKER, identity, zlib.compress(bytes(16 * 1024 * 1024 - 100), 9))
    before_kib = most_kib = served.memory_kib()
    with Crowd(served.port) as crowd:
        for each in crowd.connect(INFLATIONS):
            each.sendall(request)
        for each in crowd.sockets:
            most_kib = max(most_kib, served.memory_kib())
            read_answers(each, 1)
    print_figures(before_kib=before_kib, most_kib=most_kib)
    assert most_kib - before_kib < INFLATIONS_KIB_MAX
    served.assert_unharmed()
