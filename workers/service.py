"""`Service`: the functions that one server offers, with what was declared about each.

    service = Service()

    @service.method(idempotent=True, timeout=2.0)
    def resize(image: bytes, width: int) -> bytes: ...

A decorated function stays as it was, so that it can be called and tested directly.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar, overload

import msgspec

from . import eventloop, openrpc
from .batch_signature import checked, columns
from .blame import what_was_raised
from .context import Worker, running_call
from .errors import ServiceError
from .hooks import Hook
from .interceptors import Interceptors
from .parameters import Arguments, Parameters

Function = TypeVar("Function", bound=Callable[..., Any])

RESERVED_PREFIXES: Final = ("rpc.", "faircall.")
MAX_NAME_CHARS: Final = 200
MAX_BATCH: Final = 1024  # calls of one invocation
MAX_WITHIN_MS: Final = 1000


class Method:
    """One function under its wire name; `timeout_s` None leaves it to the server's setting.

    `batch` above 0: it serves up to so many calls at once, see `batch_signature`.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        idempotent: bool,
        timeout_s: float | None,
        batch: int = 0,
        within_ms: float = 0,
    ) -> None:
        self.name = name
        self.function = function
        self.idempotent = idempotent
        self.timeout_s = timeout_s
        self.batch, self.within_ms = batch, within_ms
        self.is_async = inspect.iscoroutinefunction(function)
        alone = self._run_async if self.is_async else function
        self._code: Callable[..., Any] = self._run_alone if batch else alone

    def __repr__(self) -> str:
        return f"Method({self.name!r})"

    @cached_property
    def bind(self) -> Callable[[bytes], Arguments]:
        """From raw params to arguments; made late, as annotations may name what comes later."""
        return Parameters(self.function, of_lists=self.batch > 0).bind

    def run(self, params: bytes, interceptors: Interceptors | None = None) -> Any:
        """What the function returns for raw JSON params; InvalidParams, or what it raises."""
        args, kwargs = self.bind(params)
        if interceptors is not None and interceptors.are_there:
            return interceptors.run(self.name, self.function, args, kwargs, self._code)
        return self._code(*args, **kwargs)

    def _run_alone(self, *args: Any, **kwargs: Any) -> Any:
        """One call of a function of lists."""
        if (call := running_call()) is not None:
            call.calls = (msgspec.structs.replace(call),)
        result = checked(self.run_together([(args, kwargs)]), 1)[0]
        if isinstance(result, Exception):
            raise result
        return result

    def run_together(self, calls: Sequence[Arguments]) -> Any:
        """What a function of lists returns for the arguments of these calls; or what it raises."""
        code = self._run_async if self.is_async else self.function
        return code(**columns(self.function, calls))

    def _run_async(self, *args: Any, **kwargs: Any) -> Any:
        call = running_call()
        result = self.function(*args, **kwargs)
        return eventloop.run(result, math.inf if call is None else call.remaining())


class Service:
    """A registry of methods, and of hooks that run once in each handler process."""

    def __init__(self, name: str = "", version: str = "1.0.0") -> None:
        """`name` and `version`, the service's own, stand in its OpenRPC document."""
        self.name, self.version = name, version
        self.module = str(sys._getframe(1).f_globals.get("__name__", ""))  # where it is made
        self.methods: dict[str, Method] = {}
        self.interceptors = Interceptors()
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
        batch: int = 0,
        within_ms: float = 0,
    ) -> Callable[[Function], Function]: ...

    def method(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        batch: int = 0,
        within_ms: float = 0,
    ) -> Any:
        """Registers a function, under its own name unless another is given.

        `idempotent`: may run again after its handler died.  `timeout`: seconds, where the caller
        sets no shorter one.  `batch`: it takes a list for each parameter and returns one, and so
        serves up to so many waiting calls at once; for `within_ms` milliseconds a handler that
        has nothing else to do waits for more of them.  ServiceError for a name that is taken or
        reserved, or a function that cannot serve.
        """

        def register(function: Function) -> Function:
            self._register(function, name, idempotent, timeout, batch, within_ms)
            return function

        if function is not None:
            return register(function)

        return register

    def _register(
        self,
        function: Callable[..., Any],
        name: str | None,
        idempotent: bool,
        timeout_s: float | None,
        batch: int,
        within_ms: float,
    ) -> None:
        name = _checked_name(function, name)
        _check_function(function, name)
        if name in self.methods:
            raise ServiceError(f"method {name!r} is declared twice")
        if timeout_s is not None and not 0 < timeout_s < math.inf:
            raise ServiceError(f"method {name!r}: timeout={timeout_s!r} is no time in seconds")
        if type(batch) is not int or not 0 <= batch <= MAX_BATCH:
            raise ServiceError(f"method {name!r}: batch={batch!r} is no number up to {MAX_BATCH}")
        if not 0 <= within_ms <= MAX_WITHIN_MS or (within_ms and not batch):
            text = f"a wait of up to {MAX_WITHIN_MS} ms for the calls of a batch"
            raise ServiceError(f"method {name!r}: within_ms={within_ms!r} is not {text}")
        self.methods[name] = Method(name, function, idempotent, timeout_s, batch, within_ms)

    def on_start(self, function: Function) -> Function:
        """Runs in each handler before its first call; with a parameter, it gets the `Worker`."""
        self._start_hooks.append(Hook(function))
        return function

    def on_stop(self, function: Function) -> Function:
        """Runs in each handler after its last call, the hook declared last first."""
        self._stop_hooks.insert(0, Hook(function))
        return function

    def before(self, function: Function) -> Function:
        """Runs before each call, with its `Interception`; an RpcError that it raises refuses it."""
        self.interceptors.add_before(function)
        return function

    def after(self, function: Function) -> Function:
        """Runs after each call, with its `Interception`: `result` or `error`, and `duration_s`."""
        self.interceptors.add_after(function)
        return function

    def find(self, name: str) -> Method | None:
        """The method of that name, or the one that tells of all others."""
        return self.methods.get(name) or (self.discover if name == openrpc.DISCOVER else None)

    @cached_property
    def discover(self) -> Method:
        """`rpc.discover`, which every service has."""
        document: list[dict[str, Any]] = []

        def discover() -> dict[str, Any]:
            document[:] = document or [openrpc.document(self)]
            return document[0]

        return Method(openrpc.DISCOVER, discover, idempotent=True, timeout_s=None)

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
