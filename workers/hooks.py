"""A function that a service runs when a handler process starts or stops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from . import eventloop
from .context import Worker
from .errors import ServiceError


class Hook:
    """Calls the function with the worker if it has a parameter for it, without arguments if not."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = name = getattr(function, "__qualname__", repr(function))
        parameters = inspect.signature(function).parameters.values()
        required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        by_name = [p for p in required if p.kind is p.KEYWORD_ONLY]
        if len(required) > 1 or by_name:
            raise ServiceError(f"hook {name} takes one parameter, the worker, or none")
        self._function = function
        self._takes_worker = bool(parameters)
        self._is_async = inspect.iscoroutinefunction(function)

    def run(self, worker: Worker) -> None:
        result = self._function(worker) if self._takes_worker else self._function()
        if self._is_async:
            eventloop.run(result)
