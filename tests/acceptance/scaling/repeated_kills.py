"""Controllers that are killed again and again while they resize topics."""

import threading

from resize_site import ScalingClient

#: A controller is up again by then.
STARTED_S = 60


class RepeatedKills:
    """Kills the leader of some controllers at random moments, `between_s` apart, and starts it again."""

    def __init__(self, controllers, chosen, *, between_s):
        self._controllers = controllers
        self._chosen = chosen
        self._between_s = between_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._kill_again, daemon=True)
        self.count = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(STARTED_S)

    def _kill_again(self):
        while not self._is_over.wait(self._chosen.uniform(*self._between_s)):
            leader = next((each for each in self._controllers if _leads(each)), None)
            if leader is not None:
                leader.process.kill()
                self.count += 1
                leader.start()


def _leads(controller):
    return ScalingClient(controller).call("GET", "operations?limit=1")[0] == 200
