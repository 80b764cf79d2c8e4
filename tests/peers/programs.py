"""Programs that tests start beside the product: which are missing, what does not run without them, how to have them."""

import os
import shutil

import pytest

#: Program -> its Debian package, and what it serves for.
PROGRAMS = {
    "java": ("openjdk-17-jdk-headless", "Java brokers, clients and tools; Spark"),
    "javac": ("openjdk-17-jdk-headless", "Java brokers, clients and tools"),
    "mvn": ("maven", "Java brokers, clients and tools"),
    "etcd": ("etcd-server", "controllers that share an etcd"),
    "etcdctl": ("etcd-client", "controllers that share an etcd"),
    "openssl": ("openssl", "an etcd with TLS"),
    "prometheus": ("prometheus", "scrapes, boards and alerts"),
    "promtool": ("prometheus", "alert rules and expressions of boards"),
    "prometheus-alertmanager": ("prometheus-alertmanager", "inhibition of alerts"),
    "amtool": ("prometheus-alertmanager", "routes of alerts"),
    "haproxy": ("haproxy", "the PROXY protocol"),
    "chromium": ("chromium", "reports in a browser"),
    "cc": ("gcc", "wall clocks that are set, disks that lose power"),
    "ip": ("iproute2", "networks that are cut"),
    "nft": ("nftables", "hosts that refuse no connection while they have no broker"),
    "setpriv": ("util-linux", "programs without root that may change the network"),
    "systemd-analyze": ("systemd", "units of documents"),
    "curl": ("curl", "commands of runbooks"),
    "bash": ("bash", "completion of commands"),
    "zsh": ("zsh", "completion of commands"),
    "fish": ("fish", "completion of commands"),
    "make": ("make", "the first steps of the README"),
}


def missing(*names):
    """Return those of the programs that are not installed."""
    return [name for name in names if not (shutil.which(name) or shutil.which(name, path="/usr/sbin"))]


def cannot_run(reason):
    """End a test that cannot run here: it is skipped with the reason, and fails where CI is set."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def require(*names):
    """End a test whose programs are not installed; its reason says which, and which packages have them."""
    if lacking := missing(*names):
        cannot_run(f"not installed: {', '.join(f'{name} (Debian: {PROGRAMS[name][0]})' for name in lacking)}")


def header():
    """Return lines for the start of a run: what will not run on this machine, and the command that changes it."""
    lacking = missing(*PROGRAMS)
    if not lacking:
        return []
    packages = sorted({PROGRAMS[name][0] for name in lacking})
    outcome = "fail" if os.environ.get("CI") else "be skipped"
    return [
        *(f"{name} is not installed: tests with {PROGRAMS[name][1]} will {outcome}" for name in lacking),
        f"to have them: apt-get install --no-install-recommends {' '.join(packages)}",
    ]
