"""What a broker reports of a topic beside its name: topics with equal settings share one value.

Pure values.
"""

from typing import Final

import msgspec

#: Topics of one registration, with the mappings of its static topics: twice as many as the largest brokers have.
TOPICS_MAX: Final = 200_000


class TopicSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings of a topic that routes depend on, as `TopicConfig` has them."""

    perm: int
    read_queue_nums: int
    write_queue_nums: int
    topic_sys_flag: int


class SharedSettings(dict[tuple[int, int, int, int], TopicSettings]):
    """One value for all topics that are set alike, by the fields of `TopicSettings`."""

    def __missing__(self, settings: tuple[int, int, int, int]) -> TopicSettings:
        value = self[settings] = TopicSettings(*settings)
        return value
