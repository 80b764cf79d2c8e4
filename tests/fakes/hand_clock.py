"""A clock that stands still until a test moves it."""


class HandClock:
    def __init__(self, unix_ms=1_700_000_000_000):
        self.passed_ms = 0
        self._unix_ms = unix_ms

    def now_ms(self):
        return self.passed_ms

    def unix_ms(self):
        return self._unix_ms + self.passed_ms

    def move(self, ms):
        self.passed_ms += ms
