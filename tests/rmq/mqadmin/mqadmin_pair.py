"""mqadmin of Java and `rmq mqadmin`, run with the same words at the same servers."""

import re
from dataclasses import dataclass

from peers.clients import MqadminRun

#: Under load a JVM misses the 5 s that mqadmin gives each request.
TRIES = 4
LATE = "RemotingTimeoutException"


@dataclass(frozen=True)
class Pair:
    """What the two did with the same words."""

    java: MqadminRun
    ours: MqadminRun


class MqadminPair:
    """Both commands; `words` may have {names} of servers in them."""

    def __init__(self, mqadmin, rmq, addresses):
        self._mqadmin = mqadmin
        self._rmq = rmq
        self.addresses = addresses

    def beside(self, mqadmin):
        """Return a pair with another mqadmin."""
        return MqadminPair(mqadmin, self._rmq, self.addresses)

    def run(self, *words):
        """Run the same words in both."""
        return Pair(self.java(*words), self.ours(*words))

    def java(self, *words):
        for _ in range(TRIES):
            ran = self._mqadmin.ran(*self._filled(words), seconds=120)
            if LATE not in ran.err:
                break
        return ran

    def ours(self, *words):
        ran = self._rmq.run("mqadmin", *self._filled(words))
        return MqadminRun(ran.code, ran.out, ran.err)

    def apart(self, *words):
        """Run words with NAME in them: mqadmin gets another name there than we, and prints must be alike but for it."""
        java = self.java(*(each.replace("NAME", "ByJava") for each in words))
        ours = self.ours(*(each.replace("NAME", "ByOurs") for each in words))
        return Pair(_renamed(java, "ByJava"), _renamed(ours, "ByOurs"))

    def _filled(self, words):
        for name, address in self.addresses.items():
            words = [each.replace(f"{{{name}}}", address) for each in words]
        return list(words)


def _renamed(ran, name):
    return MqadminRun(ran.code, ran.out.replace(name, "______"), ran.err)


def check_same(pair, changing=()):
    """Check that both printed the same but for what matches these patterns, and that both were content."""
    java, ours = pair.java.out, pair.ours.out
    for pattern in changing:
        java, ours = (re.sub(pattern, "<changing>", text) for text in (java, ours))
    assert ours == java, pair
    assert pair.ours.code == pair.java.code, pair
