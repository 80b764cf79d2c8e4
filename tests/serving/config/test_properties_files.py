"""What is read of the files that an operator hands the process, and the sentences for what cannot be."""

import pytest

from remoting.protocol.properties import Property
from serving.config.durable_file import DamagedFile, NotReadable
from serving.config.properties_files import load_properties, load_tls_properties
from serving.config.sources import PropertiesFile


@pytest.mark.parametrize("load", [load_properties, load_tls_properties])
def test_a_properties_file_is_read_with_its_lines(tmp_path, load):
    path = tmp_path / "ns.conf"
    path.write_bytes(b"# c\nlistenPort=1\n")
    assert load(str(path)) == PropertiesFile(str(path), (Property("listenPort", "1", 2),))


def test_a_configuration_file_must_be_there(tmp_path):
    with pytest.raises(NotReadable, match=f"^cannot read {tmp_path}/ns.conf: there is no such file$"):
        load_properties(str(tmp_path / "ns.conf"))


def test_what_a_crash_left_beside_the_configuration_file_is_removed(tmp_path):
    path = tmp_path / "ns.conf"
    path.write_bytes(b"")
    (tmp_path / ".ns.conf.abc.tmp").write_bytes(b"")
    assert load_properties(str(path)) == PropertiesFile(str(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["", "/none/tls.properties"])
def test_without_a_tls_file_nothing_is_given(path):
    assert load_tls_properties(path) == PropertiesFile()


def test_a_tls_file_that_is_there_and_cannot_be_read_is_told(tmp_path):
    with pytest.raises(NotReadable):
        load_tls_properties(str(tmp_path))


def test_a_broken_escape_is_told_with_file_and_line(tmp_path):
    path = tmp_path / "ns.conf"
    path.write_bytes(b"a=1\nb=\\u12\n")
    with pytest.raises(DamagedFile) as caught:
        load_properties(str(path))
    assert str(caught.value) == f"{path}: line 2: \\u must be followed by four hexadecimal digits"
