"""All paths that an offset manager serves, as it declares them: no manager runs for it."""

from offsets.http.commits import CommitViews
from offsets.http.manager_views import ManagerViews
from offsets.http.order import OrderViews
from offsets.http.readings import ReadingViews
from offsets.http.repairs import RepairViews
from offsets.http.restores import RestoreViews
from serving.http.endpoints import CONFIG, PROBES
from serving.http.paths import endpoints_of

_VIEWS = (ManagerViews, ReadingViews, RepairViews, RestoreViews, CommitViews, OrderViews)

ENDPOINTS = (*PROBES, CONFIG, *endpoints_of(*(kind.__new__(kind) for kind in _VIEWS)))
