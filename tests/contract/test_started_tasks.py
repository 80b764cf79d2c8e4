"""Tasks and threads are started where their failure is supervised, and nowhere else."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (*("remoting", "serving", "namesrv", "controller", "offsets", "store"), *("role_agent", "rmq", "history"))

#: Each starts tasks; what they raise goes to nobody, or cancels tasks that have no part in it.
STARTS_TASKS = {"create_task", "ensure_future", "gather", "TaskGroup", "run_coroutine_threadsafe", "as_completed"}
SUPERVISED = {
    ("remoting/background_tasks.py", "create_task"),
    # The servers themselves: one that does not start, or fails, ends the others.
    ("serving/process/process.py", "create_task"),
    ("serving/process/process.py", "TaskGroup"),
}
#: These go on after any failure: test_recorder.py, test_log_writer.py, test_etcd_steadiness.py, test_rmq_watch.py,
#: test_rmq_http_answers.py, test_commit_log_file.py have them fail.
THREADS = {
    "offsets/commits/log_file.py",
    "store/etcd/watch.py",
    "history/recorder.py",
    "rmq/cli/watch.py",
    "rmq/site/http_api.py",
    "serving/logging/writer.py",
}


def uses(names):
    """Return which files name which of `names`, called or handed on."""
    return {
        (str(path.relative_to(ROOT)), name)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (name := getattr(node, "attr", None) or getattr(node, "id", None)) in names
    }


def test_tasks_are_started_by_background_tasks_only():
    assert uses(STARTS_TASKS) == SUPERVISED, "use BackgroundTasks of remoting/background_tasks.py"


def test_threads_are_those_with_a_test_of_their_failures():
    assert {path for path, _ in uses({"Thread"})} == THREADS
