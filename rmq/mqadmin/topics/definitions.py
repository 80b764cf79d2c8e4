"""Configurations of topics as mqadmin sends and prints them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from remoting.admin.admin_request import AdminRequest
from remoting.admin.topics import TopicDefinition, update_topic
from rmq.failures import WrongUse
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.texts import java_format, map_text, perm_text

#: Below it a permission is valid: bits for reading, writing and inheriting.
_PERMS: Final = 8


class ChangedTopic(NamedTuple):
    """A topic as it is to be, with its attributes as they were written: `+name` and `-name`."""

    definition: TopicDefinition
    attributes: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return `TopicConfig.toString`."""
        found = self.definition
        ordered = {name: self.attributes[name] for name in string_order(self.attributes)}
        return java_format(
            "TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=%s, "
            "topicSysFlag=%d, order=%s, attributes=%s]",
            found.topic,
            found.read_queue_nums,
            found.write_queue_nums,
            perm_text(found.perm),
            found.filter_type,
            found.sys_flag,
            found.is_order,
            map_text(ordered),
        )

    @property
    def request(self) -> AdminRequest[None]:
        """The request that makes it so; raises WrongUse for a permission that does not exist."""
        if not 0 <= self.definition.perm < _PERMS:
            raise WrongUse(f"topicPermission value: {self.definition.perm} is invalid.")
        changes = {name[1:]: text if name.startswith("+") else None for name, text in self.attributes.items()}
        return update_topic(self.definition, changes)


def attributes_in(text: str | None) -> dict[str, str]:
    """Return what an option says of attributes, `+a=b,-c`; raises WrongUse."""
    attributes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if equals and not name.startswith("+"):
            raise WrongUse(f"add/alter attribute format is wrong: {name}; write +name=value")
        if not equals and not name.startswith("-"):
            raise WrongUse(f"delete attribute format is wrong: {name}; write -name")
        if name in attributes:
            raise WrongUse(f"key duplication: {name}")
        attributes[name] = value.partition("=")[0]
    return attributes
