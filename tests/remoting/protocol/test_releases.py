"""Names of releases by the number that peers send."""

import pytest

from remoting.protocol.releases import release_name


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (213, "V4_0_0"),
        (317, "V4_5_2"),
        (401, "V4_9_4"),
        (413, "V5_0_0"),
        (441, "V5_1_4"),
        (512, "V5_5_0_SNAPSHOT"),
        (513, "V5_5_0"),
        (611, "V5_9_9"),
        (612, None),
        (37, None),
        (0, None),
    ],
)
def test_number_of_a_release_has_its_name(version, name):
    assert release_name(version) == name
