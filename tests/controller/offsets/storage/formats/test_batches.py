"""Batches for etcd: at most 100 keys and 1 MiB each, in order, without loss; and how fast they follow one another."""

from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.storage.formats.batches import BATCH_BYTES_MAX, BATCH_KEYS_MAX, KeyPut, WriteRate, batches

puts = st.builds(
    KeyPut,
    st.binary(max_size=50),
    st.none() | st.integers(0, BATCH_BYTES_MAX + 5000).map(bytes),
    st.integers(0, 9),
)


@given(st.lists(puts, max_size=8))
def test_batches_have_all_writes_in_their_order(wanted):
    assert [put for batch in batches(wanted) for put in batch] == wanted


@given(st.lists(puts, max_size=8))
def test_batch_fits_into_a_request_unless_one_write_alone_does_not(wanted):
    for batch in batches(wanted):
        assert len(batch) == 1 or sum(each.request_bytes for each in batch) <= BATCH_BYTES_MAX


def test_ten_thousand_keys_take_a_hundred_requests():
    sizes = [len(batch) for batch in batches([KeyPut(b"%d" % n, b"{}", 0) for n in range(10_000)])]
    assert sizes == [BATCH_KEYS_MAX] * 100


def test_nothing_to_write_takes_no_request():
    assert list(batches([])) == []


def test_large_requests_wait_for_their_bytes_and_small_ones_for_their_number():
    rate = WriteRate(requests_per_s=50, bytes_per_s=1 << 20)
    assert rate.pause_ms(100) == 20
    assert rate.pause_ms(1 << 19) == 500
