"""What `rmq-role-agent status` prints where another program listens."""

import socketserver
import threading

import pytest

from role_agent.__main__ import main


class Other(socketserver.StreamRequestHandler):
    def handle(self):
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.fixture
def other_port():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_another_program_at_the_port_of_the_agent_is_named(tmp_path, other_port):
    file = tmp_path / "agent.toml"
    file.write_text(
        f'set = "broker-a"\nbrokerId = 1\naddresses = ["10.99.0.9/24"]\ninterface = "lo"\n'
        f'controllers = ["127.0.0.1:9"]\nlisten = "127.0.0.1:{other_port}"\npeers = ["127.0.0.1:9"]\n'
    )
    with pytest.raises(SystemExit) as ended:
        main(["status", str(file)])
    assert f"127.0.0.1:{other_port} answers 'HTTP/1.1 400 Bad Request'" in str(ended.value.code)
    assert "another program may run there" in str(ended.value.code)
