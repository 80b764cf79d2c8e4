"""The HTTP paths about restores, undoes, lags and files, as `endpoints.py` has those about offsets."""

from typing import Final

from controller.offsets.http import restore_shapes as shapes
from controller.offsets.http.manager_views import of_part
from controller.offsets.http.restore_views import RestoreViews
from serving.http.endpoints import Endpoint, Parameter

#: Each reads the offset tables of all brokers.
_LAGS_MAX: Final = 2
#: Each has a file in memory.
_FILES_MAX: Final = 2
#: One is worked on, and the others are answered 409 at once.
_RESTORES_MAX: Final = 8


_restores = of_part(lambda parts: parts.restores)

RESTORE_ENDPOINTS: Final = (
    Endpoint(
        path="/v1/offsets/restore",
        view=_restores(RestoreViews.restore),
        summary="Write offsets that the mirror has of a moment at brokers again; with dryRun only show old and new.",
        shape=shapes.RestoreAnswer,
        method="POST",
        body=shapes.RestoreBody,
        refusals=(409, 503),
        concurrent_max=_RESTORES_MAX,
    ),
    Endpoint(
        path="/v1/offsets/undo",
        view=_restores(RestoreViews.undo),
        summary="Bring back what there was before a restore, an import or a reset; with dryRun only show old and new.",
        shape=shapes.RestoreAnswer,
        method="POST",
        body=shapes.UndoBody,
        refusals=(404, 409, 503),
        concurrent_max=_RESTORES_MAX,
    ),
    Endpoint(
        path="/v1/offsets/operations",
        view=_restores(RestoreViews.operations),
        summary="The last operations of this manager that can be undone, the newest first.",
        shape=shapes.KeptOperationListing,
        refusals=(400, 503),
    ),
    Endpoint(
        path="/v1/offsets/lag",
        view=_restores(RestoreViews.lag),
        summary="How far a group is behind in each queue, read from brokers now; unknown is never 0.",
        shape=shapes.LagListing,
        parameters=(
            Parameter("group", "The group; must be given."),
            Parameter("topic", "Only this topic."),
            Parameter("cluster", "Name of the cluster; DefaultCluster by default."),
            Parameter("namespace", "Namespace of offsets of this manager; none by default."),
        ),
        refusals=(400, 409, 422, 503),
        concurrent_max=_LAGS_MAX,
    ),
    Endpoint(
        path="/v1/offsets/import",
        view=_restores(RestoreViews.import_file),
        summary="Store the offsets of a file of a broker or client, here or at brokers; with dryRun only show them.",
        shape=shapes.ImportAnswer,
        method="POST",
        body=shapes.ImportBody,
        body_bytes_max=shapes.IMPORT_BYTES_MAX,
        refusals=(409, 503),
        concurrent_max=_FILES_MAX,
    ),
    Endpoint(
        path="/v1/offsets/export",
        view=_restores(RestoreViews.export_file),
        summary="Offsets of this manager, or of the mirror, as a file of a broker or client.",
        shape=shapes.ExportAnswer,
        method="POST",
        body=shapes.ExportBody,
        refusals=(409, 503),
        concurrent_max=_FILES_MAX,
    ),
)
