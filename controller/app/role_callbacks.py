"""Wires callbacks: what `onRoleChange` names, and what it is called for."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from controller.app.controller_core import ControllerCore
from controller.callbacks.delivered import DeliveredMasters
from controller.callbacks.program import ProgramCaller
from controller.callbacks.reported import ReportedChanges
from controller.callbacks.service import CallbackOptions, CallbackRuntime, Caller, RoleCallbacks
from controller.callbacks.webhook import WebhookCaller
from controller.config import ControllerConfig
from controller.roles.changes import RoleChange
from remoting.clock import Clock, SystemClock
from serving.config.callback_target import is_url, program_of
from serving.config.stored_config import StoredConfig
from serving.telemetry.events import Emit
from store.store import StoreBackend

#: Variables of the controller's own options, passwords among them.
_HIDDEN_PREFIX: Final = "RMQ_"


def make_role_callbacks(
    core: ControllerCore,
    backend: StoreBackend,
    settings: StoredConfig[ControllerConfig],
    reported: ReportedChanges,
    emit: Emit,
) -> RoleCallbacks:
    """Return what calls the program or URL of the configuration, which names one."""
    clock = SystemClock()

    def explain(change: RoleChange) -> str:
        return core.control.elections.why(change.broker_name, change.master_epoch)

    return RoleCallbacks(
        CallbackRuntime(
            group=core.group,
            sets=core.store,
            reported=reported,
            delivered=DeliveredMasters(backend),
            caller=_caller(settings.config, clock),
            clock=clock,
            options=lambda: CallbackOptions.of(settings.config),
            emit=emit,
            is_named=names_sets(settings.config.on_role_change_sets),
            explain=explain,
            start=core.begin,
        )
    )


def names_sets(value: str) -> Callable[[str], bool]:
    """Return what tells whether `onRoleChangeSets` names a set."""
    names = {name for each in value.split(";") if (name := each.strip())}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return lambda broker_name: not names or broker_name in names or broker_name.startswith(prefixes)


def _caller(config: ControllerConfig, clock: Clock) -> Caller:
    target = config.on_role_change
    if is_url(target):
        return WebhookCaller(target, config.on_role_change_token_path)
    threads = ThreadPoolExecutor(config.on_role_change_calls_max, thread_name_prefix="onRoleChange")
    return ProgramCaller(program_of(target), threads, _HIDDEN_PREFIX, clock)
