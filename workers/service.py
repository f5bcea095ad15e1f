"""`Service`: the functions that one server offers, with what was declared about each.

    service = Service()

    @service.method(idempotent=True, timeout=2.0)
    def resize(image: bytes, width: int) -> bytes: ...

A decorated function stays as it was, so that it can be called and tested directly.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar, overload

from . import eventloop
from .blame import what_was_raised
from .context import Worker, running_call
from .errors import ServiceError
from .hooks import Hook
from .parameters import Arguments, Parameters

Function = TypeVar("Function", bound=Callable[..., Any])

RESERVED_PREFIXES: Final = ("rpc.", "faircall.")
MAX_NAME_CHARS: Final = 200


class Method:
    """One function under its wire name; `timeout_s` None leaves it to the server's setting."""

    def __init__(
        self, name: str, function: Callable[..., Any], idempotent: bool, timeout_s: float | None
    ) -> None:
        self.name = name
        self.function = function
        self.idempotent = idempotent
        self.timeout_s = timeout_s
        self.is_async = inspect.iscoroutinefunction(function)

    def __repr__(self) -> str:
        return f"Method({self.name!r})"

    @cached_property
    def bind(self) -> Callable[[bytes], Arguments]:
        """From raw params to arguments; made late, as annotations may name what comes later."""
        return Parameters(self.function).bind

    def run(self, params: bytes) -> Any:
        """What the function returns for raw JSON params; InvalidParams, or what it raises."""
        args, kwargs = self.bind(params)
        result = self.function(*args, **kwargs)
        if self.is_async:
            call = running_call()
            return eventloop.run(result, math.inf if call is None else call.remaining())
        return result


class Service:
    """A registry of methods, and of hooks that run once in each handler process."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.methods: dict[str, Method] = {}
        self._start_hooks: list[Hook] = []
        self._stop_hooks: list[Hook] = []

    @overload
    def method(self, function: Function, /) -> Function: ...

    @overload
    def method(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]: ...

    def method(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Registers a function, under its own name unless another is given.

        `idempotent`: may run again after its handler died.  `timeout`: seconds, where the caller
        sets no shorter one.  ServiceError for a name that is taken or reserved, or a function that
        cannot serve.
        """
        if function is not None:
            self._register(function, name, idempotent, timeout)
            return function

        def register(function: Function) -> Function:
            self._register(function, name, idempotent, timeout)
            return function

        return register

    def _register(
        self,
        function: Callable[..., Any],
        name: str | None,
        idempotent: bool,
        timeout_s: float | None,
    ) -> None:
        name = _checked_name(function, name)
        _check_function(function, name)
        if name in self.methods:
            raise ServiceError(f"method {name!r} is declared twice")
        if timeout_s is not None and not 0 < timeout_s < math.inf:
            raise ServiceError(f"method {name!r}: timeout={timeout_s!r} is no time in seconds")
        self.methods[name] = Method(name, function, idempotent, timeout_s)

    def on_start(self, function: Function) -> Function:
        """Runs in each handler before its first call; with a parameter, it gets the `Worker`."""
        self._start_hooks.append(Hook(function))
        return function

    def on_stop(self, function: Function) -> Function:
        """Runs in each handler after its last call, the hook declared last first."""
        self._stop_hooks.insert(0, Hook(function))
        return function

    def prepare(self) -> None:
        """Makes every method ready to be called; ServiceError if one cannot be."""
        for method in self.methods.values():
            _ = method.bind

    def start(self, worker: Worker) -> None:
        """Runs the start hooks; ServiceError if one raises, and the rest do not run."""
        for hook in self._start_hooks:
            try:
                hook.run(worker)
            except Exception as error:
                text = f"the start hook {hook.name}() raised {what_was_raised(error)}"
                raise ServiceError(text) from error

    def stop(self, worker: Worker) -> list[Exception]:
        """Runs every stop hook and closes the event loop; returns what they raised."""
        errors = []
        for hook in (*self._stop_hooks, Hook(eventloop.close)):
            try:
                hook.run(worker)
            except Exception as error:
                errors.append(error)
        return errors


def _checked_name(function: Callable[..., Any], given: str | None) -> str:
    name = getattr(function, "__name__", None) if given is None else given
    if not isinstance(name, str) or not name:
        raise ServiceError(f"{function!r} has no name: use @service.method(name=...)")
    if name.startswith(RESERVED_PREFIXES):
        raise ServiceError(f"method {name!r}: names in rpc. and faircall. are reserved")
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        limit = f"at most {MAX_NAME_CHARS} printable characters"
        raise ServiceError(f"method {name[:MAX_NAME_CHARS]!r}: a name has {limit}")
    return name


def _check_function(function: Callable[..., Any], name: str) -> None:
    if not callable(function):
        raise ServiceError(f"method {name!r} is a {type(function).__name__}, not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ServiceError(f"method {name!r} is a generator: a call has one result, return a list")
