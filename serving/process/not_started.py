"""Why a server does not start, beside its configuration and its files."""


class NotStarted(Exception):
    """The server cannot serve; the text says why."""
