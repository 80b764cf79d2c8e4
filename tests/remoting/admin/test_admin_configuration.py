"""Options of servers, as they are listed and sent."""

import pytest

from remoting.admin.configuration import server_config, update_config
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import Refused


@pytest.mark.parametrize(("server", "code"), [("broker", 26), ("namesrv", 319), ("controller", 1010)])
def test_listing_is_read_as_it_stands(server, code):
    text = "a=1\npath=C:\\temp\nblank=\nformula=x=y\n订=单\n"

    wanted = server_config(server)
    assert wanted.request.code == code
    assert wanted.read_response(RemotingCommand(0, body=text.encode())) == {
        "a": "1",
        "path": "C:\\temp",
        "blank": "",
        "formula": "x=y",
        "订": "单",
    }


@pytest.mark.parametrize(("server", "code"), [("broker", 25), ("namesrv", 318), ("controller", 1009)])
def test_changes_are_sent_as_properties_that_java_reads(server, code):
    request = update_config(server, {"a": "1", "path": "C:\\temp", "line": "x\ny"}).request

    assert (request.code, request.body) == (code, b"a=1\nline=x\\ny\npath=C:\\\\temp\n")


def test_option_in_the_black_list_is_refused():
    with pytest.raises(Refused, match="black list"):
        update_config("broker", {"a": "1"}).read_response(
            RemotingCommand(16, remark="Can not update config in black list.")
        )
