"""The parameters of a function as its author declared them, and decoders for their types.

Everything that can be wrong with a declaration is found here, when a service is loaded, and said
in a ServiceError; at run time only the caller's values can be wrong.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Any, Final

import msgspec
import numpy as np

from .errors import ServiceError

_NUMBER_KINDS: Final = "biuf"


def declared_parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters in order, their annotations evaluated (Any for none) and checked."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        found = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise ServiceError(f"{name} has no signature that Python can tell") from None
    hints = _evaluated(function, name, found)
    for parameter, hint in hints.items():
        _check_readable(hint, f"parameter `{parameter}` of {name}")
    return [p.replace(annotation=hints.get(p.name, Any)) for p in found]


def decoder_of(kind: Any) -> Callable[[Any], Any]:
    """A function from JSON bytes to a value of type `kind`; TypeError if msgspec knows no way."""
    return msgspec.json.Decoder(kind, dec_hook=_convert).decode


def _evaluated(
    function: Callable[..., Any], name: str, parameters: list[Parameter]
) -> dict[str, Any]:
    """Annotations by name.  That of the result is left alone: only type checkers may know it."""

    def written() -> None: ...

    written.__annotations__ = {
        p.name: p.annotation for p in parameters if p.annotation is not p.empty
    }
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(written, globalns=scope, include_extras=True)
    except Exception as error:
        raise ServiceError(f"the annotations of {name} cannot be evaluated: {error}") from None


def _check_readable(hint: Any, where: str) -> None:
    try:
        decoder_of(hint)
        unknown = next(_unknown_classes(msgspec.inspect.type_info(hint), set()), None)
    except TypeError as error:
        raise ServiceError(f"{where} cannot be read from JSON: {error}") from None
    if unknown is not None:
        raise ServiceError(f"{where} cannot be read from JSON: no way to make a {unknown}")


def _unknown_classes(part: Any, seen: set[int]) -> Iterator[str]:
    """Names of the classes in a type description (a tree of structs) that nothing here can make."""
    if isinstance(part, tuple):
        for item in part:
            yield from _unknown_classes(item, seen)
    elif isinstance(part, msgspec.inspect.CustomType):
        if part.cls not in (np.ndarray, object):
            yield part.cls.__qualname__
    elif isinstance(part, msgspec.Struct) and id(part) not in seen:
        seen.add(id(part))
        yield from _unknown_classes(msgspec.structs.astuple(part), seen)


def _convert(kind: Any, value: Any) -> Any:
    """msgspec's `dec_hook`: `np.ndarray` and `NDArray[dtype]` from an array of numbers."""
    if kind is object:
        return value
    if (typing.get_origin(kind) or kind) is not np.ndarray:
        raise TypeError(f"cannot make a {kind}")
    if not isinstance(value, list):
        raise TypeError("Expected an `array` of numbers")
    plain = np.asarray(value)
    dtype = _dtype_of(kind, plain.dtype)
    if plain.dtype.kind not in _NUMBER_KINDS:
        raise TypeError("Expected an `array` of numbers")
    if plain.dtype.kind == "f" and plain.size and dtype.kind not in "fc":
        raise TypeError(f"Expected an `array` of {dtype.name}, got fractions")
    try:
        return np.asarray(value, dtype)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _dtype_of(kind: Any, otherwise: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that `NDArray[...]` names, if it names one that an array can have."""
    for argument in typing.get_args(kind)[1:]:
        for scalar in typing.get_args(argument):
            if scalar in np.sctypeDict.values():
                dtype: np.dtype[Any] = np.dtype(scalar)
                return dtype
    return otherwise
