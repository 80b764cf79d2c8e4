"""How a Java process of a RocketMQ version is started: flags, home folder, logging to its standard error."""

import os
import shutil

from peers.jars import SOURCES, class_path
from peers.processes import Process

#: Compiling for short lives: a broker is up in about 4 s instead of 7 s on two cores.
SHORT_LIFE = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]

#: A Java server makes a key of its own for TLS when it starts, which is half of what its start takes. One that is given
#: an option of TLS speaks it.
WITHOUT_TLS = "-Dtls.server.mode=disabled"

#: Version 4.9 was made for Java 8: on 17 it could not stop in order otherwise.
OPENED = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")]


def start_java(
    name, version, main, arguments, *, folder, flags=(), heap="-Xmx128m", logging="logback.xml", environment=None
):
    """Start a Java program with its own home folder, which also holds its log."""
    home = folder / name
    _prepare_home(home, logging)
    command = ["java", heap, *SHORT_LIFE, *OPENED]
    command += [f"-Duser.home={home}", f"-Drmq.logback.configurationFile={home / 'conf' / 'logback.xml'}"]
    if not any(each.startswith("-Dtls.") for each in flags):
        command.append(WITHOUT_TLS)
    command += [*flags, "-cp", class_path(version), main, *arguments]
    env = os.environ | {"ROCKETMQ_HOME": str(home)} | (environment or {})
    return Process(name, command, folder=home, env=env)


def _prepare_home(home, logging):
    """Version 5 gets its logging configuration by a flag; version 4.9 looks for these files."""
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for file in ("logback.xml", "logback_broker.xml", "logback_namesrv.xml", "logback_tools.xml"):
        shutil.copyfile(SOURCES / "conf" / logging, conf / file)


def write_properties(file, properties):
    """Write a Java properties file; booleans in Java's spelling."""
    lines = [f"{key}={str(value).lower() if isinstance(value, bool) else value}\n" for key, value in properties.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines))
    return file
