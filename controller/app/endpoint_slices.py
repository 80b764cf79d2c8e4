"""Wires EndpointSlices: the sets of `kubernetesSetsFile`, and the API server of the cluster that this pod runs in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from controller.app.controller_core import ControllerCore
from controller.config import ControllerConfig
from controller.endpoint_slices.api_server import ApiServer
from controller.endpoint_slices.service import EndpointSlices, SliceRuntime
from remoting.clock import SystemClock
from serving.config.service_sets import ServiceSet, ServiceSetsRefused, service_sets
from serving.process.start import StartFailed
from serving.telemetry.events import Emit

#: Variables that Kubernetes gives to each pod.
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"


def make_endpoint_slices(
    core: ControllerCore, config: ControllerConfig, environment: Mapping[str, str], emit: Emit
) -> EndpointSlices:
    """Return what publishes the sets of the file that the configuration names; raises StartFailed."""
    host, port = environment.get(HOST_VARIABLE, ""), environment.get(PORT_VARIABLE, "")
    if not host or not (port.isascii() and port.isdigit()):
        raise StartFailed(f"kubernetesSetsFile is for pods: {HOST_VARIABLE} and {PORT_VARIABLE} name no API server")
    server = ApiServer(host, int(port), Path(config.kubernetes_credentials_path).expanduser())
    return EndpointSlices(
        SliceRuntime(
            group=core.group,
            sets=core.store,
            clock=SystemClock(),
            opened=server.opened,
            services=_services_in(Path(config.kubernetes_sets_path).expanduser()),
            emit=emit,
        )
    )


def _services_in(path: Path) -> tuple[ServiceSet, ...]:
    try:
        return tuple(service_sets(path.read_bytes()))
    except OSError as error:
        raise StartFailed(f"kubernetesSetsFile: {path} cannot be read: {error.strerror or error}") from None
    except ServiceSetsRefused as refusal:
        raise StartFailed(f"kubernetesSetsFile: {path}: {refusal}") from None
