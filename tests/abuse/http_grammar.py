"""HTTP requests of every path with hostile content: methods, parts, parameters, headers, and bodies of all kinds.

Paths, methods and parameters come from the OpenAPI document of the server, so what is added is asked by itself.
"""

import json
from urllib.parse import quote

from grammar import INTEGER_TEXTS, TEXTS

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "X" * 50]
#: Names of things that may be there, and cursors.
LIKELY = ["topic-a", "set-a", "cluster-a", "ORDER_TOPIC_CONFIG", "Witnesses", "witnessed", "WyJhIl0", "bnVsbA", "0"]
HEADERS = [
    b"Last-Event-ID: 0123456789abcdef-1",
    b"Last-Event-ID: " + b"9" * 5_000,
    b"Authorization: Bearer x",
    b"Authorization: Basic " + b"A" * 7_000,
    b"Origin: http://evil.example",
    b"Cookie: " + b"a=b; " * 1_000,
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"Upgrade: websocket\r\nConnection: Upgrade",
    b"Range: bytes=0-",
    b"Accept-Encoding: gzip, br",
    b"Connection: close",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"X: " + b"x" * 9_000,
    b" folded",
    b"\x00: \xff",
]
BODIES = [b"{}", b"null", b"[" * 60_000, b'{"a":' * 10_000, b" " * 70_000, b"\xff" * 100, b'{"token":"' + b"x" * 1_000]


class HttpGrammar:
    """Makes requests for one server from its OpenAPI document; the same ones again with the same `random`."""

    def __init__(self, document, random):
        self._operations = [
            (path, method.upper(), operation.get("parameters", ()))
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        self._random = random
        self.sent = {path: 0 for path, _, _ in self._operations}

    def request(self):
        """Return the bytes of a request, whole or not."""
        path, method, parameters = self._random.choice(self._operations)
        self.sent[path] += 1
        if self._one_in(10):
            method = self._random.choice(METHODS)
        query = []
        for each in parameters:
            if each["in"] == "path":
                path = path.replace("{" + each["name"] + "}", self._text())
            elif not self._one_in(3):
                count = 100 if self._one_in(10) else 1
                query += [f"{each['name']}={self._text()}" for _ in range(count)]
        if self._one_in(10):
            query.append(f"{self._text()}={self._text()}")
        target = (
            self._random.choice(TEXTS[:8]) if self._one_in(50) else "?".join([path, "&".join(query)][: 1 + bool(query)])
        )
        version = self._random.choice(["1.1", "1.1", "1.1", "1.0", "2.0", "9" * 100]) if self._one_in(5) else "1.1"
        head = [f"{method} {target} HTTP/{version}".encode("utf-8", "surrogatepass"), *self._headers()]
        return b"\r\n".join([*head, b"", b""]) + self._body(method)

    def _headers(self):
        headers = [b"Host: 127.0.0.1"] if not self._one_in(20) else []
        if self._one_in(3):
            headers += self._random.sample(HEADERS, self._random.choice([1, 1, 2, 5]))
        return headers

    def _body(self, method):
        """Return what follows the blank line of the head; the head before may have announced another body."""
        if method in ("GET", "HEAD") and not self._one_in(20):
            return b""
        body = self._random.choice(BODIES)
        chunked = b"%x\r\n%b\r\n" % (len(body), body)
        return self._random.choice(
            [body, chunked, chunked + b"0\r\n\r\n", chunked * 3, b"fffffffffffffff\r\n" + body, b""]
        )

    def _text(self):
        kind = self._random.choice([LIKELY, LIKELY, TEXTS, INTEGER_TEXTS])
        text = self._random.choice(kind)[: self._random.choice([100, 100, 2_000, 60_000])]
        return quote(text.encode("utf-8", "surrogatepass"), safe="")

    def _one_in(self, times):
        return self._random.random() < 1 / times


def document_of(text):
    """Return the OpenAPI document of an answer's body."""
    return json.loads(text)
