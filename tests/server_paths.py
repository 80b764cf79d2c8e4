"""All paths that each server serves, as it declares them: no server runs for it."""

from controller.http.analysis_views import AnalysisViews
from controller.http.master_views import MasterViews
from controller.http.scaling_views import AutoscalerViews, ScalingViews
from controller.http.switchover_views import CallbackViews, SwitchoverViews
from controller.http.views import ElectionViews, SetViews
from namesrv.http.views import LookupViews, NameServerViews, PeersViews
from offsets.http.commits import CommitViews
from offsets.http.manager_views import ManagerViews
from offsets.http.order import OrderViews
from offsets.http.readings import ReadingViews
from offsets.http.repairs import RepairViews
from offsets.http.restores import RestoreViews
from serving.http.history_views import PastLifeViews, PastRouteViews
from serving.http.paths import endpoints_of
from serving.http.server_views import ConfigViews, ProbeViews


def _paths(*kinds):
    return endpoints_of(*(kind.__new__(kind) for kind in kinds))


SWITCHOVER_ENDPOINTS = _paths(SwitchoverViews)
CONTROLLER_ENDPOINTS = (
    *_paths(ProbeViews, SetViews, MasterViews, SwitchoverViews, ElectionViews, CallbackViews, ScalingViews),
    *_paths(AutoscalerViews, PastLifeViews, AnalysisViews, ConfigViews),
)
NAMESRV_ENDPOINTS = _paths(
    ProbeViews, NameServerViews, PeersViews, PastRouteViews, PastLifeViews, ConfigViews, LookupViews
)
OFFSET_MANAGER_ENDPOINTS = _paths(
    ProbeViews, ConfigViews, ManagerViews, ReadingViews, RepairViews, RestoreViews, CommitViews, OrderViews
)
