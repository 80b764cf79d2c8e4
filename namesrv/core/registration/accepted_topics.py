"""What is accepted of a registration body, whichever form it has."""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from namesrv.core.registration.reported_topics import ReportedTopics
from namesrv.core.values.topics import TOPICS_MAX, SharedSettings, TopicSettings
from namesrv.refusals import NameTooLong
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.errors import BodyError
from remoting.protocol.plain_text import is_plain
from remoting.protocol.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: Filter servers of one broker; brokers before 5.0 have some for each processor at most.
FILTER_SERVERS_MAX: Final = 16
#: All their addresses together: they are in every route of the broker.
FILTER_SERVERS_CHARS_MAX: Final = 1024


class RegistrationBody(NamedTuple):
    """A decoded registration body, in fields of `Registration`."""

    data_version: DataVersion
    topics: dict[str, TopicSettings]
    mappings: dict[str, TopicQueueMappingInfo]
    #: None = keep what is stored.
    filter_servers: tuple[str, ...] | None
    #: What was left out because it cannot be a broker's: topics, mappings, filter servers.
    ignored_topics: int = 0
    #: How to know it again; None where that is not possible.
    reported: ReportedTopics | None = None


class PreviousRegistration(NamedTuple):
    """A broker's previous registration, while it still holds."""

    reported: ReportedTopics
    #: The topics that are known of it.
    topics: Mapping[str, object]


def check_topic_count(topics: int) -> None:
    """Raise BodyError if a registration has more topics and mappings than any broker."""
    if topics > TOPICS_MAX:
        raise BodyError(f"{topics} topics and mappings are over the limit of {TOPICS_MAX}")


class AcceptedTopics:
    """What is accepted of a registration body: what can be a broker's; the rest is counted."""

    def __init__(self, topics: dict[str, TopicSettings] | None = None) -> None:
        self.topics = {} if topics is None else topics
        self.mappings: dict[str, TopicQueueMappingInfo] = {}
        self.ignored = 0
        self._shared = SharedSettings()

    def add_topics(self, table: Mapping[str, TopicConfig]) -> None:
        """Add the settings of topics whose names are valid."""
        self._check_count(len(table))
        for key, config in table.items():
            self.add_topic(config.topic_name or key, config)

    def add_topic(self, name: str, config: TopicConfig) -> None:
        """Add the settings of one topic if its name is valid."""
        if not _is_topic_name(name):
            self.ignored += 1
            return
        self.topics[name] = self._shared[
            config.perm, config.read_queue_nums, config.write_queue_nums, config.topic_sys_flag
        ]

    def add_mappings(self, table: Mapping[str, TopicQueueMappingInfo]) -> None:
        """Add the mappings of static topics whose texts may be sent to clients."""
        self._check_count(len(table))
        for topic, mapping in table.items():
            if _is_topic_name(topic) and _is_valid_mapping(mapping):
                self.mappings[topic] = mapping
            else:
                self.ignored += 1

    def body(
        self, data_version: DataVersion, filter_servers: Iterable[str] | None, reported: ReportedTopics | None = None
    ) -> RegistrationBody:
        """Return the decoded body, with the first of the filter servers that are addresses; None keeps those stored."""
        accepted = None
        if filter_servers is not None:
            every = list(filter_servers)
            chars = accumulate(len(server) for server in every)
            accepted = tuple(
                server
                for server, sum_chars in zip(every, chars, strict=True)
                if is_address(server) and sum_chars <= FILTER_SERVERS_CHARS_MAX
            )[:FILTER_SERVERS_MAX]
            self.ignored += len(every) - len(accepted)
        return RegistrationBody(data_version, self.topics, self.mappings, accepted, self.ignored, reported)

    def _check_count(self, more: int) -> None:
        check_topic_count(len(self.topics) + len(self.mappings) + self.ignored + more)


def _is_topic_name(name: str) -> bool:
    return 0 < len(name) <= NameTooLong.CHARS_MAX and is_plain(name)


def _is_valid_mapping(mapping: TopicQueueMappingInfo) -> bool:
    """Return whether the names in a mapping, which every client of the topic gets, are valid."""
    names = [text for text in (mapping.bname, mapping.scope) if isinstance(text, str)]
    return all(map(is_name, names)) and not (isinstance(mapping.topic, str) and not _is_topic_name(mapping.topic))
