"""Whatever needs an event loop runs on the product's, and on that of the standard library."""

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}
