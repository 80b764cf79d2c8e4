"""Scopes: which rows they cover."""

from hypothesis import given, settings
from hypothesis import strategies as st
from offset_builders import CLUSTER, a_row

from controller.offsets.commits.scopes import OffsetScope, scopes_of

NAMES = st.sampled_from(["a", "b"])
ROWS = st.builds(a_row, NAMES, NAMES, NAMES, st.sampled_from(["", "n"]))
SCOPES = st.builds(
    OffsetScope, st.just(CLUSTER), st.sampled_from(["", "n"]), st.none() | NAMES, st.none() | NAMES, st.none() | NAMES
)


@settings(max_examples=200)
@given(ROWS, SCOPES)
def test_scope_covers_a_row_if_it_is_one_of_the_scopes_of_the_row(of, scope):
    assert scope.covers(of) == (scope in set(scopes_of(of)))
