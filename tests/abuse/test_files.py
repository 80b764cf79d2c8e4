"""What other users of the machine get of a server's files."""

import json
import stat

from peers.controllers import OurController
from peers.waiting import wait_until

OTHERS = stat.S_IRWXG | stat.S_IRWXO
START_FAILED = 255


def opened(path, mode):
    path.chmod(mode)
    return path


def test_store_and_history_are_for_the_user_of_the_server_alone(lab):
    history = lab.folder / "history"
    controller = lab.kept(OurController(lab.folder, historyDir=history)).start()
    store = controller.folder / "store"
    wait_until(lambda: any(history.rglob("*.*")) and any(store.rglob("*")), seconds=30, what="store and history")
    made = [history, store, *history.rglob("*"), *store.rglob("*")]
    assert [path for path in made if path.exists() and path.stat().st_mode & OTHERS] == []


def test_configuration_that_any_user_may_write_runs_no_program(lab):
    controller = OurController(lab.folder, onRoleChange="/bin/true")
    path = opened(controller.folder / "controller.conf", 0o666)
    controller.launch()
    assert controller.process.wait(seconds=30) == START_FAILED
    assert f"{path}: any user may write it, and onRoleChange is set: chmod o-w {path}" in controller.process.text()


def test_server_warns_of_files_that_decide_and_are_open_to_all(lab):
    token = lab.folder / "token"
    token.write_text("0123456789abcdef\n")
    opened(token, 0o644)
    controller = OurController(lab.folder, httpAdminTokenFile=token)
    path = opened(controller.folder / "controller.conf", 0o666)
    lab.kept(controller).start()
    lines = [json.loads(line) for line in controller.process.text().splitlines() if '"file_exposed"' in line]
    assert {(line["path"], line["error"]) for line in lines} == {
        (str(path), "any user may write it"),
        (str(token), "any user may read httpAdminTokenFile"),
    }
