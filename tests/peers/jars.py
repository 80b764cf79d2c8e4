"""Where the Java side comes from: jars of each RocketMQ version, and our few Java programs compiled against them.

Maven fetches the jars that `tests/java/VERSION/pom.xml` names into `.cache/java/VERSION`, once. Several test runs may
start at the same time: the first one fetches, the others wait for its lock.
"""

import fcntl
import hashlib
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

#: Broker, common, controller, remoting and store of 5.5.1; all else is of 5.5.0, as no more of it can be had.
V5_5_1 = "5.5.1"
V5_5 = "5.5.0"
V5_4 = "5.4.0"
V5_1 = "5.1.4"
V4_9 = "4.9.7"
ALL_VERSIONS = (V5_5_1, V5_5, V5_4, V5_1, V4_9)

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "tests" / "java"
CACHE = REPOSITORY / ".cache" / "java"
FETCH_TIMEOUT_S = 600


TOOLS = ("java", "javac", "mvn")


def class_path(version):
    """Return the class path of one RocketMQ version with our programs, fetching and compiling what is not there yet."""
    with _lock(version):
        jars = _fetched(version)
        programs = _compiled(version, jars)
    return f"{programs}:{jars}/*"


@contextmanager
def _lock(version):
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetched(version):
    pom = SOURCES / version / "pom.xml"
    jars = CACHE / version
    command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    _make(jars, stamp=_digest([pom]), command=command)
    return jars


def _compiled(version, jars):
    sources = sorted((SOURCES / "src").glob("*.java"))
    programs = CACHE / f"{version}-programs"
    command = ["javac", "-d", programs, "-cp", f"{jars}/*", *sources]
    _make(programs, stamp=_digest(sources), command=command)
    return programs


def _make(folder, *, stamp, command):
    """Fill `folder` by running `command`, unless it was filled from the same sources before."""
    stamp_file = folder.with_name(folder.name + ".stamp")
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if made.returncode:
        raise RuntimeError(f"{command[0]} failed for {folder}:\n{made.stdout[-2000:]}\n{made.stderr[-2000:]}")
    stamp_file.write_text(stamp)


def _digest(files):
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
