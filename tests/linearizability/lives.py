"""When each broker was there to be heard, for what controllers may have believed of it."""

import bisect
from dataclasses import dataclass, field

#: A broker that beats more often than that is never silent for the 3 s that make it suspect.
SILENT_S = 2.0
#: How long after its first beat it may still be dead for one of the controllers.
NOTICED_S = 4.0
#: How long a heartbeat counts; brokers say so in each.
HEARTBEAT_TIMEOUT_S = 10.0
#: How much longer a judgement and its commit may take.
JUDGED_S = 5.0


@dataclass
class _Life:
    signs_s: list[float] = field(default_factory=list)
    #: Stretches without a longer silence; the last one may be open.
    spans: list[list[float]] = field(default_factory=list)
    is_ended: bool = True


class Lives:
    """The heartbeats of the brokers of one set, by broker id."""

    def __init__(self):
        self._lives = {}

    def heartbeat(self, broker_id, now_s):
        life = self._lives.setdefault(broker_id, _Life())
        life.signs_s.append(now_s)
        if life.is_ended or now_s - life.spans[-1][1] > SILENT_S:
            life.spans.append([now_s, now_s])
            life.is_ended = False
        life.spans[-1][1] = now_s

    def ends(self, broker_id):
        """Learn that the broker is about to close its connections; what it sent last is its end."""
        if broker_id in self._lives:
            self._lives[broker_id].is_ended = True

    def may_be_dead(self, broker_id, from_s, to_s):
        """Tell whether some controller may have taken it for dead at some time between these."""
        spans = self._lives[broker_id].spans if broker_id in self._lives else []
        return not any(begin + NOTICED_S <= from_s and to_s <= end for begin, end in spans)

    def may_live(self, broker_id, from_s, to_s):
        """Tell whether some controller may have taken it for alive at some time between these."""
        signs = self._lives[broker_id].signs_s if broker_id in self._lives else []
        next_sign = bisect.bisect_left(signs, from_s - HEARTBEAT_TIMEOUT_S - JUDGED_S)
        return next_sign < len(signs) and signs[next_sign] <= to_s


class AllMayBe:
    """Knows nothing of the brokers, so that everything may be."""

    def may_be_dead(self, broker_id, from_s, to_s):
        return True

    def may_live(self, broker_id, from_s, to_s):
        return True


class AllLive:
    """Nobody is ever taken for dead."""

    def may_be_dead(self, broker_id, from_s, to_s):
        return False

    def may_live(self, broker_id, from_s, to_s):
        return True


@dataclass(frozen=True)
class Moment:
    """A stretch of time in which something happened."""

    lives: object
    from_s: float
    to_s: float

    def may_be_dead(self, broker_id):
        return self.lives.may_be_dead(broker_id, self.from_s, self.to_s)

    def may_live(self, broker_id):
        return self.lives.may_live(broker_id, self.from_s, self.to_s)
