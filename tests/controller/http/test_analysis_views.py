"""What a controller answers of the results that `rmq-analytics` has published; files may be anybody's."""

import json
import os

import msgspec
import pytest
from fakes.in_process_controller import InProcessController

from controller.http import analysis_views
from serving.shapes.controller import AnalysisListing, AnalysisRows

CHINESE = "集群-甲"
COLUMNS = [
    {"name": "window_start", "type": "timestamp", "doc": "beginning of the window"},
    {"name": "cluster", "type": "string", "doc": "cluster"},
    {"name": "broker_name", "type": "string", "doc": "broker set"},
    {"name": "start_time", "type": "timestamp", "doc": "when it began"},
    {"name": "end_time", "type": "timestamp", "doc": "when it ended"},
]


def a_time(hour):
    return f"2026-11-21T{hour:02}:00:00.000000Z"


def a_row(name, cluster="C", start=None, end=None):
    return {
        "window_start": a_time(0),
        "cluster": cluster,
        "broker_name": name,
        "start_time": start and a_time(start),
        "end_time": end and a_time(end),
    }


def publish(folder, name, *rows, job="A6", **changed):
    path = folder / "results" / "latest" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "version": 1,
        "job": job,
        "name": name,
        "question": f"What of {name}?",
        "window_start": a_time(0),
        "window_end": a_time(23),
        "finished_at": a_time(23),
        "columns": COLUMNS,
        "row_count": len(rows),
        "rows": rows,
    }
    path.write_text(json.dumps(result | changed))
    return path


@pytest.fixture
async def controller(tmp_path):
    async with InProcessController(tmp_path, analytics_dir=str(tmp_path / "analytics")) as controller:
        controller.folder = tmp_path / "analytics"
        yield await controller.serve_http()


async def rows(controller, query="", name="divergence"):
    status, body = await controller.get(f"/v1/analyses/{name}{query}")
    assert status == 200, body
    assert msgspec.to_builtins(msgspec.convert(body | {"items": []}, AnalysisRows)) == body | {"items": []}
    return [each["broker_name"] for each in body["items"]], body


async def test_results_are_listed_by_job_and_those_that_cannot_be_read_with_the_reason(controller, monkeypatch):
    assert await controller.get("/v1/analyses") == (200, {"isConfigured": True, "items": [], "problems": {}})
    publish(controller.folder, "failover_timeline", job="A10")
    publish(controller.folder, "heartbeat_gaps", a_row("a"), job="A2")
    publish(controller.folder, "torn").write_text('{"job": "A3"')
    publish(controller.folder, "nested").write_text("[" * 100_000)
    publish(controller.folder, "Not a name")
    status, body = await controller.get("/v1/analyses")
    assert status == 200
    assert [(each["job"], each["name"], each["rowCount"]) for each in body["items"]] == [
        ("A2", "heartbeat_gaps", 1),
        ("A10", "failover_timeline", 0),
    ]
    assert set(body["problems"]) == {"torn.json", "nested.json"}
    assert "is no result of rmq-analytics" in body["problems"]["torn.json"]
    assert msgspec.to_builtins(msgspec.convert(body, AnalysisListing)) == body

    # A newer result takes the place of the one before.
    publish(controller.folder, "heartbeat_gaps", a_row("a"), a_row("b"), job="A2")
    assert (await controller.get("/v1/analyses"))[1]["items"][0]["rowCount"] == 2
    monkeypatch.setattr(analysis_views, "FILE_BYTES_MAX", 10)
    publish(controller.folder, "heartbeat_gaps", job="A2")
    assert "are read at most" in (await controller.get("/v1/analyses"))[1]["problems"]["heartbeat_gaps.json"]


def rewritten(path, text):
    """Write a file anew so that nothing but its content tells it from what it was."""
    before = path.stat()
    assert len(text.encode()) <= before.st_size
    path.write_text(text.ljust(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_file_that_cannot_be_read_is_decoded_once_until_it_changes(controller):
    path = publish(controller.folder, "divergence", a_row("a"))
    good = path.read_text()
    path.write_text("{" + good)
    assert (await controller.get("/v1/analyses/divergence"))[0] == 503
    rewritten(path, good)
    assert (await controller.get("/v1/analyses/divergence"))[0] == 503
    assert list((await controller.get("/v1/analyses"))[1]["problems"]) == ["divergence.json"]
    os.utime(path)
    assert (await rows(controller))[0] == ["a"]
    assert (await controller.get("/v1/analyses"))[1]["problems"] == {}


async def test_rows_of_a_filter_are_looked_for_once_until_the_file_changes(controller, monkeypatch):
    monkeypatch.setattr(analysis_views, "CACHED_BYTES_MAX", 0)
    path = publish(controller.folder, "divergence", a_row("a"), a_row("b", cluster="D"))
    publish(controller.folder, "other")
    assert (await rows(controller, "?cluster=C"))[0] == ["a"]
    # Another file takes the place in memory, so that this one is read again.
    assert (await rows(controller, name="other"))[0] == []
    rewritten(path, path.read_text().replace('"b"', '"c"').replace('"D"', '"C"'))
    assert (await rows(controller, "?cluster=C"))[0] == ["a"]
    assert (await rows(controller))[0] == ["a", "c"]
    os.utime(path)
    assert (await rows(controller, "?cluster=C"))[0] == ["a", "c"]


async def test_rows_are_filtered_by_cluster_and_time(controller):
    publish(
        controller.folder,
        "divergence",
        a_row("early", start=1, end=3),
        a_row("late", start=8, end=9),
        a_row("elsewhere", cluster=CHINESE, start=2, end=2),
        a_row("of-all", cluster=None, start=2, end=4),
        a_row("timeless"),
    )
    assert (await rows(controller))[0] == ["early", "late", "elsewhere", "of-all", "timeless"]
    assert (await rows(controller, "?cluster=C"))[0] == ["early", "late", "of-all", "timeless"]
    assert (await rows(controller, "?cluster=%E9%9B%86%E7%BE%A4-%E7%94%B2"))[0] == ["elsewhere", "of-all"]
    assert (await rows(controller, "?from=2026-11-21T05:00Z"))[0] == ["late", "timeless"]
    assert (await rows(controller, "?to=2026-11-21T02:00"))[0] == ["early", "timeless"]
    assert (await rows(controller, "?from=2026-11-21T11:30%2B08:00&to=2026-11-21T04:00Z"))[0] == ["of-all", "timeless"]


async def test_rows_come_in_pages(controller):
    publish(controller.folder, "divergence", *(a_row(f"b{number}") for number in range(5)))
    found, body = await rows(controller, "?limit=2")
    assert (found, body["total"]) == (["b0", "b1"], 5)
    assert (await rows(controller, f"?limit=2&cursor={body['nextCursor']}"))[0] == ["b2", "b3"]


@pytest.mark.parametrize("name", ["nope", "..", "..%2f..%2fsecret", "A" * 300, "divergence.json"])
async def test_no_name_leads_out_of_the_folder(controller, name):
    publish(controller.folder, "divergence")
    (controller.folder / "secret.json").write_text("{}")
    status, body = await controller.get(f"/v1/analyses/{name}")
    assert (status, body["error"]["code"]) == (404, "not_found")


async def test_wrong_times_and_unreadable_results_are_refused_with_a_sentence(controller):
    publish(controller.folder, "divergence").write_text("{")
    for query in ("?from=yesterday", "?to=2026-13-01", "?from=0001-01-01T00:00%2B14:00"):
        status, body = await controller.get(f"/v1/analyses/divergence{query}")
        assert (status, "must be a time such as" in body["error"]["message"]) == (400, True)
    status, body = await controller.get("/v1/analyses/divergence")
    assert (status, body["error"]["code"]) == (503, "unavailable")


async def test_controller_without_analyses_has_none(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.serve_http()
        assert (await controller.get("/v1/analyses"))[1] == {"isConfigured": False, "items": [], "problems": {}}
        assert (await controller.get("/v1/analyses/divergence"))[0] == 404
