"""A real API server of Kubernetes over a real etcd, with RBAC; no nodes.

A real CoreDNS answers what it stores where there is one, else a DNS of the tests.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

from peers.etcd import Etcd, certificate
from peers.kubernetes_site import LONG_S, NAMESPACE, SLICE, LoopThread, SliceDns
from peers.networks import Network
from peers.processes import Process, free_port
from peers.waiting import wait_until

#: Neither is a package of Debian.
API_SERVER, DNS = "kube-apiserver", "coredns"
_ADMIN = "admin-token"
_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Service": "/api/v1/namespaces/{}/services",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"


def why_not():
    """Return why there can be no such cluster here; None if there can."""
    lacking = [name for name in (API_SERVER, "etcd", "openssl") if shutil.which(name) is None]
    return f"not on PATH: {', '.join(lacking)}" if lacking else None


class RealCluster:
    """Listens where the network's server is; made by a thread that is there, and stays."""

    def __init__(self, network, folder):
        self.network, self.has_coredns = network, shutil.which(DNS) is not None
        self._folder = folder / "cluster"
        self._folder.mkdir()
        self.etcd = Etcd(self._folder).start()
        cert, _, self._key = certificate(self._folder, "kube-apiserver")
        self._cert = cert
        self._tls = ssl.create_default_context(cafile=cert)
        # The network is of this test alone; `free_port` reserves with sockets of UDP.
        self.api_port, self._dns_port = free_port(), 53
        self.credentials = self._folder / "serviceaccount"
        self.credentials.mkdir()
        shutil.copy(cert, self.credentials / "ca.crt")
        self._write_keys()
        self._start()

    def _write_keys(self):
        subprocess.run(
            ["openssl", "genrsa", "-out", self._folder / "accounts.key", "2048"], check=True, capture_output=True
        )
        (self._folder / "tokens.csv").write_text(f"{_ADMIN},admin,admin,system:masters\n")
        (self._folder / "kubeconfig").write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [
                        {
                            "name": "c",
                            "cluster": {
                                "server": f"https://127.0.0.1:{self.api_port}",
                                "certificate-authority": self._cert,
                            },
                        }
                    ],
                    "users": [{"name": "c", "user": {"token": _ADMIN}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                }
            )
        )
        (self._folder / "Corefile").write_text(
            f".:{self._dns_port} {{\n bind 127.0.0.1\n errors\n"
            " hosts {\n  127.0.0.1 controller.test\n  fallthrough\n }\n"
            f" kubernetes cluster.local {{\n  kubeconfig {self._folder / 'kubeconfig'}\n  ttl 5\n }}\n}}\n"
        )

    def _start(self):
        options = {
            "etcd-servers": f"http://{self.etcd.endpoints[0]}",
            "secure-port": self.api_port,
            "advertise-address": Network.server,
            "tls-cert-file": self._cert,
            "tls-private-key-file": self._key,
            "token-auth-file": self._folder / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.96.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": self._folder / "accounts.key",
            "service-account-signing-key-file": self._folder / "accounts.key",
            "cert-dir": self._folder / "certs",
        }
        command = ["kube-apiserver", *(f"--{name}={value}" for name, value in options.items())]
        self._api = Process("kube-apiserver", command, folder=self._folder, env=os.environ)
        wait_until(self._is_ready, seconds=180, what=lambda: f"the API server is ready: {self._api.text()[-2000:]}")
        self._start_dns()

    def _start_dns(self):
        if self.has_coredns:
            self.nameserver = f"127.0.0.1:{self._dns_port}"
            self._dns = Process(DNS, [DNS, "-conf", self._folder / "Corefile"], folder=self._folder, env=os.environ)
        else:
            self._loop, self._dns = LoopThread(self.network.inside), SliceDns(self.endpoints)
            self._loop.do(self._dns.__aenter__())
            self.nameserver = self._dns.address

    def _is_ready(self):
        try:
            return self.call("GET", "/readyz", is_json=False)[0] == 200
        except OSError:
            return False

    def call(self, method, path, body=None, *, token=_ADMIN, is_json=True):
        """Return the status and the body of the answer to a request."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.api_port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=LONG_S) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        return status, json.loads(text) if is_json else text

    @property
    def version(self):
        return self.call("GET", "/version")[1]["gitVersion"]

    def apply(self, objects):
        """Create objects of the chart, and return those that the server refuses, with its answers."""
        refused = {}
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for (kind, name), each in objects.items():
            if kind in _PATHS:
                status, answer = self.call("POST", _PATHS[kind].format(NAMESPACE), each)
                if status != 201:
                    refused[kind, name] = answer["message"]
        return refused

    def give_token(self, account):
        """Write a token of a service account where the controller reads it, and return it."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        status, answer = self.call("POST", path, kind)
        assert status == 201, answer
        (self.credentials / "token").write_text(answer["status"]["token"])
        return answer["status"]["token"]

    def endpoints(self):
        """Return the addresses that are published, by host name."""
        status, found = self.call("GET", f"{SLICES}/{SLICE}")
        return {} if status == 404 else {each["hostname"]: each["addresses"] for each in found["endpoints"] or ()}

    def go_away(self):
        """Kill the API server and DNS."""
        if self.has_coredns:
            self._dns.kill()
        else:
            self._dns.is_silent = True
        self._api.kill()

    def close(self):
        self.go_away()
        if not self.has_coredns:
            self._loop.do(self._dns.__aexit__())
            self._loop.close()
        self.etcd.stop()


def resolves(nameserver, name):
    """Return the IPv4 address that a DNS server answers for a name; None for none."""
    host, _, port = nameserver.rpartition(":")
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        asking.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1", (host, int(port)))
        try:
            answer = asking.recv(1024)
        except OSError:
            return None
    return socket.inet_ntoa(answer[-4:]) if int.from_bytes(answer[6:8]) else None
