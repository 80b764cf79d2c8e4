"""One module for each board: who reads it, and what it asks."""

from typing import Final

from dashboards.boards import analytics, brokers, controller, lag, namesrv, offset_manager, overview, scaling, topics
from dashboards.grafana import Board

BOARDS: Final[tuple[Board, ...]] = (
    overview.BOARD,
    namesrv.BOARD,
    controller.BOARD,
    brokers.BOARD,
    topics.BOARD,
    lag.BOARD,
    scaling.BOARD,
    offset_manager.BOARD,
    analytics.BOARD,
)
