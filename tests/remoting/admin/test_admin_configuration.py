"""Options of servers, as they are listed and sent."""

import pytest

from remoting.admin.configuration import (
    broker_config,
    controller_config,
    namesrv_config,
    update_broker_config,
    update_controller_config,
    update_namesrv_config,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import Refused


@pytest.mark.parametrize(
    ("wanted", "code"), [(broker_config(), 26), (namesrv_config(), 319), (controller_config(), 1010)]
)
def test_listing_is_read_as_it_stands(wanted, code):
    text = "a=1\npath=C:\\temp\nblank=\nformula=x=y\n订=单\n"

    assert wanted.request.code == code
    assert wanted.read_response(RemotingCommand(0, body=text.encode())) == {
        "a": "1",
        "path": "C:\\temp",
        "blank": "",
        "formula": "x=y",
        "订": "单",
    }


@pytest.mark.parametrize(
    ("update", "code"),
    [(update_broker_config, 25), (update_namesrv_config, 318), (update_controller_config, 1009)],
)
def test_changes_are_sent_as_properties_that_java_reads(update, code):
    request = update({"a": "1", "path": "C:\\temp", "line": "x\ny"}).request

    assert (request.code, request.body) == (code, b"a=1\nline=x\\ny\npath=C:\\\\temp\n")


def test_option_in_the_black_list_is_refused():
    with pytest.raises(Refused, match="black list"):
        update_broker_config({"a": "1"}).read_response(
            RemotingCommand(16, remark="Can not update config in black list.")
        )
