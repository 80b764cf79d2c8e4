"""What a page of another site gets of a server on loopback, by the browser of somebody on that machine."""

import http.client

import pytest
from peers.controllers import OurController

EVIL = {"Host": "rebound.example:9880"}
OF_ANOTHER_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
BY_A_LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(params=["name server", "controller"])
def server(request, lab, serve):
    return serve().server if request.param == "name server" else lab.kept(OurController(lab.folder)).start()


def status(server, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_page_of_another_site_reads_nothing(server):
    for path in ("/v1/openapi.json", "/metrics", "/v1/broker-sets", "/readyz", "/nothing"):
        assert status(server, path, EVIL) == 421, path
        assert status(server, path, {"Host": f"localhost:{server.http_port}", **OF_ANOTHER_SITE}) == 403, path


def test_programs_and_people_of_the_machine_read_as_before(server):
    for headers in ({"Host": "localhost"}, {"Host": f"127.0.0.1:{server.http_port}"}):
        assert status(server, "/metrics", headers) == 200, headers
        assert status(server, "/readyz", headers) in {200, 503}, headers
    assert status(server, "/metrics", {"Host": "localhost", **BY_A_LINK}) == 200
