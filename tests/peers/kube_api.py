"""A server that answers for EndpointSlices as the API server of Kubernetes does, in what the controller uses of it.

TLS with an authority of its own, bearer tokens (401), rights by verb (403), optimistic locking by resourceVersion and
uid (409), and the validation of `discovery.k8s.io/v1` (422).
"""

import asyncio
import copy
import ipaddress
import re
import ssl
import uuid

from aiohttp import web

from peers.etcd import certificate
from peers.processes import free_port

TOKEN = "a-service-account-token"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMMUTABLE = "field is immutable"


class KubeApi:
    """Listens at 127.0.0.1; `slices` has what is stored, by namespace and name."""

    def __init__(self, folder):
        self.slices, self.tokens, self.verbs = {}, {TOKEN}, {"get", "create", "update"}
        self.requests, self.port, self.hangs = [], free_port(), False
        #: Called before a write is looked at: a change by somebody else.
        self.before_write = lambda: None
        #: Called with the name of a slice before it is read.
        self.before_read = lambda name: None
        #: While it is cleared, writes that have arrived are not carried out.
        self.write_waits = asyncio.Event()
        self.write_waits.set()
        #: Bytes that are answered for a slice instead of it.
        self.answers = {}
        self.credentials = folder / "serviceaccount"
        self.credentials.mkdir()
        cert, _, key = certificate(folder, "kube-apiserver")
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(cert, key)
        (self.credentials / "ca.crt").write_text((folder / "kube-apiserver.pem").read_text())
        (self.credentials / "token").write_text(f"{TOKEN}\n")
        self._version, self._runner = 0, None

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def start(self):
        app = web.Application()
        base = "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        app.router.add_post(base, self._create)
        app.router.add_get(base + "/{name}", self._get)
        app.router.add_put(base + "/{name}", self._update)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()

    async def stop(self):
        """Be away: connections are refused."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def writes(self):
        return [verb for verb, _ in self.requests if verb != "get"]

    def endpoints(self, name, namespace="ns"):
        """Return the addresses of a slice by host name; None if there is no such slice."""
        found = self.slices.get((namespace, name))
        return None if found is None else {each["hostname"]: each["addresses"] for each in found["endpoints"]}

    def change(self, name, namespace="ns", **fields):
        """Change a slice as somebody else does."""
        self._store((namespace, name), self.slices[namespace, name] | fields)

    async def _get(self, request):
        if refused := await self._refused(request, "get"):
            return refused
        self.before_read(_key(request)[1])
        if (answer := self.answers.get(_key(request)[1])) is not None:
            return web.Response(body=answer, content_type="application/json")
        found = self.slices.get(_key(request))
        return _status(404, f'endpointslices "{_key(request)[1]}" not found') if found is None else _json(found)

    async def _create(self, request):
        if refused := await self._refused(request, "create"):
            return refused
        self.before_write()
        sent = await request.json()
        key = request.match_info["namespace"], sent["metadata"].get("name")
        if fault := _fault_of(sent, key):
            return fault
        if key in self.slices:
            return _status(409, f'endpointslices "{key[1]}" already exists')
        sent["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
        return _json(self._store(key, sent), status=201)

    async def _update(self, request):
        if refused := await self._refused(request, "update"):
            return refused
        self.before_write()
        sent, key = await request.json(), _key(request)
        if fault := _fault_of(sent, key):
            return fault
        found = self.slices.get(key)
        if found is None:
            return _status(404, f'endpointslices "{key[1]}" not found')
        metadata = sent["metadata"]
        for field in ("resourceVersion", "uid"):
            if metadata.get(field) not in (None, found["metadata"][field]):
                return _status(409, "the object has been modified; please apply your changes to the latest version")
        if sent["addressType"] != found["addressType"]:
            return _status(422, f"addressType: Invalid value: {_IMMUTABLE}")
        metadata |= {each: found["metadata"][each] for each in ("uid", "creationTimestamp")}
        return _json(self._store(key, sent))

    async def _refused(self, request, verb):
        self.requests.append((verb, request.path.rpartition("/")[2]))
        while self.hangs:
            await asyncio.sleep(0.01)
        if verb != "get":
            await self.write_waits.wait()
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self.tokens:
            return _status(401, "Unauthorized")
        if verb not in self.verbs:
            return _status(403, f'User "controller" cannot {verb} resource "endpointslices"')
        return None

    def _store(self, key, each):
        self._version += 1
        each = copy.deepcopy(each)
        each["metadata"]["resourceVersion"] = str(self._version)
        for port in each.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        self.slices[key] = each
        return each


def _key(request):
    return request.match_info["namespace"], request.match_info["name"]


def _json(each, status=200):
    return web.json_response(each, status=status)


def _status(code, message):
    return web.json_response({"kind": "Status", "status": "Failure", "message": message, "code": code}, status=code)


def _fault_of(sent, key):
    """Return the answer to what is no valid slice; None to one that is."""
    namespace, name = key
    metadata = sent.get("metadata", {})
    if (sent.get("apiVersion"), sent.get("kind")) != ("discovery.k8s.io/v1", "EndpointSlice"):
        return _status(400, "the object provided is unrecognized")
    if (metadata.get("namespace"), metadata.get("name")) != (namespace, name):
        return _status(400, "the name of the object does not match the name on the URL")
    faults = [] if sent.get("addressType") in ("IPv4", "IPv6", "FQDN") else ["addressType: Unsupported value"]
    if len(sent.get("endpoints") or ()) > 1000:
        faults.append("endpoints: Too many: must have at most 1000 items")
    for each in sent.get("endpoints") or ():
        faults += _faults_of_endpoint(each, sent.get("addressType"))
    return _status(422, "; ".join(faults)) if faults else None


def _faults_of_endpoint(each, family):
    if "hostname" in each and not _LABEL.fullmatch(each["hostname"]):
        yield f"hostname: Invalid value: {each['hostname']}"
    if not each.get("addresses"):
        yield "addresses: Required value: must contain at least 1 address"
    for address in each.get("addresses") or ():
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            yield f"addresses: Invalid value: {address}: must be a valid IP address"
            continue
        if f"IPv{ip.version}" != family:
            yield f"addresses: Invalid value: {address}: must be an {family} address"
        if ip.is_loopback or ip.is_unspecified or ip.is_link_local:
            yield f"addresses: Invalid value: {address}: may not be in a special range"
