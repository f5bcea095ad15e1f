"""Functions that serve many calls at once: a list in for each parameter, a list out.

    @service.method(batch=32, within_ms=2)
    def classify(image: list[bytes], top: list[int] = 5) -> list[list[str]]: ...

A caller calls it like any other method, `classify(image, top=3)`: what is annotated `list[T]` is a
T for him. A default is that of one call that leaves the parameter out, not a list.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, Final

import numpy as np

from .errors import ServiceError

_LISTS: Final = (list, collections.abc.Sequence)
_PLAIN: Final = (Parameter.POSITIONAL_OR_KEYWORD,)


class WrongResults(TypeError):
    """The function returned something else than one result for each call."""


def of_one_call(function: Callable[..., Any], declared: list[Parameter]) -> list[Parameter]:
    """The `declared` parameters of a function of lists as one call gives them; or ServiceError."""
    name = getattr(function, "__qualname__", repr(function))
    if not declared:
        raise ServiceError(
            f"{name} serves many calls at once and has no parameter: nothing tells it how many"
        )
    return [parameter.replace(annotation=_item(parameter, name)) for parameter in declared]


def item_of(kind: Any) -> Any:
    """T of `list[T]`; Any if there is none."""
    args = typing.get_args(kind) if typing.get_origin(kind) in _LISTS else ()
    return args[0] if len(args) == 1 else Any


def _item(parameter: Parameter, name: str) -> Any:
    where = f"parameter `{parameter.name}` of {name}, which serves many calls at once,"
    if parameter.kind not in _PLAIN:
        raise ServiceError(f"{where} must be one that can be given by position and by name")
    kind = parameter.annotation
    if kind is Any or kind in _LISTS:
        return Any
    if typing.get_origin(kind) not in _LISTS:
        raise ServiceError(f"{where} must be annotated list[...]: it gets a list, not {kind}")
    return item_of(kind)


def columns(
    function: Callable[..., Any], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> dict[str, list[Any]]:
    """A list for each parameter from the (args, kwargs) of each call, all of which are complete."""
    names = list(inspect.signature(function).parameters)
    rows = [dict(zip(names, args, strict=False)) | kwargs for args, kwargs in calls]
    return {name: [row[name] for row in rows] for name in names}


def checked(results: Any, calls: int) -> Sequence[Any]:
    """What the function returned, as one result for each of its `calls`; or WrongResults."""
    is_array = isinstance(results, np.ndarray) and results.ndim > 0
    if not is_array and not isinstance(results, list | tuple):
        kind = type(results).__name__
        raise WrongResults(f"{calls} calls at once need a list of {calls} results, not a {kind}")
    if len(results) != calls:
        raise WrongResults(f"{calls} calls at once need {calls} results, not {len(results)}")
    found: Sequence[Any] = results
    return found
