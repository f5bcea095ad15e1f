"""The event loop of this process, on which `async def` methods and hooks run.

Made when first needed, so that it is never inherited through a fork.  It turns only while a
coroutine of a call or a hook is awaited: a background task that a service starts rests between
such calls.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

from .errors import CallCancelled, DeadlineExceeded

T = TypeVar("T")

_loop: asyncio.AbstractEventLoop | None = None


def run(coroutine: Coroutine[Any, Any, T], timeout_s: float = math.inf) -> T:
    """The coroutine's result; after `timeout_s` it is cancelled and DeadlineExceeded raised."""
    global _loop
    if _loop is None:
        _loop = asyncio.new_event_loop()
    try:
        return _loop.run_until_complete(_within(coroutine, timeout_s))
    except asyncio.CancelledError:
        raise CallCancelled("the method cancelled itself") from None


async def _within(coroutine: Coroutine[Any, Any, T], timeout_s: float) -> T:
    try:
        async with asyncio.timeout(None if timeout_s == math.inf else timeout_s) as limit:
            return await coroutine
    except TimeoutError:
        if limit.expired():
            raise DeadlineExceeded() from None
        raise


def close() -> None:
    """Cancels what is left on the loop and closes it; the next `run` would make a new one."""
    global _loop
    if _loop is None:
        return
    loop, _loop = _loop, None
    try:
        loop.run_until_complete(_end(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
