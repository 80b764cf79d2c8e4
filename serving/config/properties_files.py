"""Reads the properties files that an operator hands the process.

Answers to the reading half of `NamesrvStartup` and `ControllerStartup`. Here alone their text meets their file name, so
here are the sentences for damaged files.
"""

from pathlib import Path

from remoting.protocol.properties import PropertiesError, parse
from serving.config.durable_file import DamagedFile, NotReadable, read, read_latest, recover
from serving.config.sources import PropertiesFile


def load_properties(path: str) -> PropertiesFile:
    """Return what the configuration file holds; raises NotReadable, also if there is none, and DamagedFile."""
    file = Path(path)
    recover(file)
    content = read_latest(file)
    if content is None:
        raise NotReadable(file, "there is no such file")
    return _parsed(path, content)


def load_tls_properties(path: str) -> PropertiesFile:
    """Return what the file of tls.* properties holds, nothing if there is none; raises NotReadable and DamagedFile."""
    content = read(Path(path)) if path else None
    return PropertiesFile() if content is None else _parsed(path, content)


def _parsed(path: str, content: bytes) -> PropertiesFile:
    try:
        return PropertiesFile(path, tuple(parse(content)))
    except PropertiesError as error:
        raise DamagedFile(Path(path), str(error)) from error
