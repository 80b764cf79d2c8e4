"""Encoded routes that are still true, so that a query costs a look-up instead of an encoding.

Whoever changes a topic, a broker set or a setting that routes depend on drops the answers concerned in the same step
(`route_state.py`): an answer found here, or sent to a request that is known, is never older than the tables.
"""

from collections.abc import Iterable
from typing import Final

from remoting.server.response_cache import PreparedAnswer

#: Bytes of bodies that are kept; beyond it go those of the topics for which none was made for the longest time. A route
#: over 300 broker sets has about 64 KiB.
ANSWERS_BYTES_MAX: Final = 128 * 1024 * 1024


class RouteAnswers:
    """Topic -> form of the answer (its dialect) -> answer."""

    def __init__(self, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._answers: dict[str, dict[object, PreparedAnswer]] = {}
        self._bytes = 0
        #: How many answers were made, and how many topics' answers were dropped because they were no longer true.
        self.misses = 0
        self.invalidated = 0

    def get(self, topic: str, form: object) -> PreparedAnswer | None:
        """Return the answer, if it is still true."""
        answers = self._answers.get(topic)
        return answers.get(form) if answers else None

    def keep(self, topic: str, form: object, answer: PreparedAnswer) -> None:
        """Keep an answer that was just made from the tables."""
        self.misses += 1
        # Its topic goes last, so that making room does not take what was just made.
        answers = self._answers[topic] = self._answers.pop(topic, {})
        if (former := answers.get(form)) is not None:
            self._bytes -= former.body_bytes
            former.drop()
        answers[form] = answer
        self._bytes += answer.body_bytes
        while self._bytes > self._bytes_max and len(self._answers) > 1:
            self._forget(next(iter(self._answers)))

    def drop(self, topics: Iterable[str]) -> None:
        """Forget the answers of topics that changed; of the keys of two tables the fewer are gone through."""
        for topic in self._answers.keys() & topics:
            self._forget(topic)
            self.invalidated += 1

    def clear(self) -> None:
        """Forget all, because something changed that every route depends on."""
        self.invalidated += len(self._answers)
        for topic in list(self._answers):
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        for answer in self._answers.pop(topic).values():
            self._bytes -= answer.body_bytes
            answer.drop()
