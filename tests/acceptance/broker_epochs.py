"""In which master epoch each send was acknowledged, and whether an older epoch followed a newer one. Pure.

An acknowledgement names the place of its message in the broker's log, and the log names the place where each epoch
began. So an address that is master again and again cannot hide an acknowledgement of one of its former epochs.
"""

import math
import re
from bisect import bisect_right
from dataclasses import dataclass

_OK = re.compile(r"^OK (\d+) (\S+) (\d+) (\S+) (\d+)$", re.MULTILINE)
#: Lines of the same producer before and after a wrong one that a failing test shows.
LINES_AROUND = 5


@dataclass(frozen=True, slots=True)
class StoredSend:
    """A send that a broker acknowledged; `unix_ms` is when its producer knew."""

    unix_ms: int
    key: str
    broker: str
    log_offset: int


def stored_sends(text):
    """Return the acknowledgements in the output of a `Load`, in their order."""
    return [
        StoredSend(int(unix_ms), key, f"{host}:{port}", int(log_offset))
        for unix_ms, key, port, host, log_offset in _OK.findall(text)
    ]


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of a set: where each began in the log, as (epoch, offset) in that order, and its master's address."""

    starts: list[tuple[int, int]]
    masters: dict[int, str]

    def of(self, send):
        """Return the epoch in which a broker acknowledged a send; None if it was the master of no such epoch."""
        number = bisect_right([offset for _, offset in self.starts], send.log_offset)
        assert number, f"{send} is before the first epoch of {self.starts}"
        epoch = self.starts[number - 1][0]
        # A broker notes no epoch that begins where the one before did, in which nothing was sent.
        end = self.starts[number][0] if number < len(self.starts) else math.inf
        led = [each for each, master in self.masters.items() if master == send.broker]
        if led_then := [each for each in led if epoch <= each < end]:
            return max(led_then)
        # That part of its log was replaced by what its successor wrote: it acknowledged in an epoch before that.
        return max((each for each in led if each < epoch), default=None)

    def problems(self):
        """Return a sentence for each epoch of the log whose master is not known."""
        return [
            f"no controller logged the master of epoch {epoch}" for epoch, _ in self.starts if epoch not in self.masters
        ]


class EpochRecord:
    """Follows several producers from check to check; keeps what one check has to know of those before."""

    def __init__(self):
        #: By producer, the newest epoch in which one of its sends was acknowledged.
        self._newest = {}
        #: By epoch, when its first send was acknowledged, whoever sent it.
        self._first_ms = {}
        self.count = 0

    @property
    def epochs(self):
        """How many epochs have acknowledged sends."""
        return len(self._first_ms)

    def problems(self, sends_by_producer, epochs):
        """Return a sentence for each acknowledgement that breaks the rule, with the lines around it.

        `sends_by_producer` are those since the last check, in the order in which each producer printed them.
        """
        found = epochs.problems()
        dated = {}
        for producer, sends in sends_by_producer.items():
            dated[producer] = [(epoch, each) for each in sends if (epoch := epochs.of(each)) is not None]
            found += [f"{producer}: acknowledged by no master: {each}" for each in sends if epochs.of(each) is None]
        for epoch, send in (each for sends in dated.values() for each in sends):
            self._first_ms[epoch] = min(send.unix_ms, self._first_ms.get(epoch, send.unix_ms))
            self.count += 1
        newer_ms = {epoch: self._first_newer_ms(epoch) for sends in dated.values() for epoch, _ in sends}
        return found + [
            f"{producer}: {problem}\n{_around(sends, number)}"
            for producer, sends in dated.items()
            for number, (epoch, send) in enumerate(sends)
            if (problem := self._problem(producer, epoch, send, newer_ms[epoch])) is not None
        ]

    def _first_newer_ms(self, epoch):
        return min((first_ms for each, first_ms in self._first_ms.items() if each > epoch), default=math.inf)

    def _problem(self, producer, epoch, send, newer_ms):
        newest = self._newest[producer] = max(epoch, self._newest.get(producer, epoch))
        if epoch < newest:
            return f"epoch {epoch} acknowledged after epoch {newest}: {send}"
        # Two producers have no common order within a millisecond.
        if send.unix_ms > newer_ms:
            return f"epoch {epoch} acknowledged {send.unix_ms - newer_ms} ms after another producer's newer one: {send}"
        return None


def _around(sends, number):
    shown = sends[max(0, number - LINES_AROUND) : number + LINES_AROUND + 1]
    return "\n".join(f"    epoch {epoch} {send}" for epoch, send in shown)
