"""From the raw JSON of "params" to the arguments of a function, checked against its annotations.

For each function two msgspec structs are made, one that reads an array and one that reads an
object, so that parsing, checking and converting are one pass in C.  A parameter without annotation
takes any JSON value as it is; integers keep all their digits.  `bytes` come from base64,
`np.ndarray` and `NDArray[dtype]` from (nested) arrays of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw

from .batch_signature import of_one_call
from .errors import INVALID_PARAMS, RpcError
from .mismatch import Mismatch, explain
from .signature import declared_parameters, decoder_of

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Reader = Callable[[Any], Any]

_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_NOTHING: Final[dict[str, Any]] = {}
_astuple: Final = msgspec.structs.astuple
_read_items: Final = msgspec.json.Decoder(list[Raw]).decode
_read_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class InvalidParams(RpcError):
    """The params do not fit the function; the message and `data.parameter` name the culprit."""

    def __init__(self, mismatch: Mismatch) -> None:
        data = None if mismatch.parameter is None else {"parameter": mismatch.parameter}
        super().__init__(INVALID_PARAMS, f"Invalid params: {mismatch.text}", data)
        self.args = (mismatch,)


class Parameters:
    """The parameters of one function; ServiceError if one of them cannot be read from JSON.

    `of_lists`: it serves many calls at once, and these are the parameters of one.
    """

    def __init__(self, function: Callable[..., Any], *, of_lists: bool = False) -> None:
        declared = declared_parameters(function)
        if of_lists:
            declared = of_one_call(function, declared)
        by_position = [p for p in declared if p.kind in _BY_POSITION]
        by_name = [p for p in declared if p.kind in _BY_NAME]
        self._positions = [p.name for p in by_position]
        self._names = [p.name for p in by_name]
        self._only_named = _first_required(declared, Parameter.KEYWORD_ONLY)
        self._never_named = _first_required(declared, Parameter.POSITIONAL_ONLY)
        self._args = _first(declared, Parameter.VAR_POSITIONAL)
        self._kwargs = _first(declared, Parameter.VAR_KEYWORD)
        self._is_plain = self._only_named is None and self._args is None  # by position
        self._read_array = _struct_reader(by_position, is_array=True, is_open=bool(self._args))
        self._read_object = _struct_reader(by_name, is_array=False, is_open=bool(self._kwargs))

    def bind(self, params: bytes) -> Arguments:
        """The positional and the named arguments from raw JSON (b"" = none); or InvalidParams."""
        try:
            if params[:1] == b"{":
                return (), self._named(params)
            if self._is_plain:
                return _astuple(self._read_array(params or b"[]")), _NOTHING
            return self._positional(params or b"[]"), _NOTHING
        except DecodeError as error:
            raise InvalidParams(explain(str(error), self._positions)) from None
        except RecursionError:
            raise InvalidParams(Mismatch("nested too deeply")) from None

    def _positional(self, params: bytes) -> tuple[Any, ...]:
        if self._only_named is not None:
            raise _misplaced(self._only_named, "name")
        known: tuple[Any, ...] = _astuple(self._read_array(params))
        if self._args is None:
            return known
        extra = _read_items(params)[len(known) :]
        return known + tuple(self._args.read(raw, f"[{i}]") for i, raw in enumerate(extra))

    def _named(self, params: bytes) -> dict[str, Any]:
        if self._never_named is not None:
            raise _misplaced(self._never_named, "position")
        known = dict(zip(self._names, _astuple(self._read_object(params)), strict=True))
        if self._kwargs is not None:
            for name, raw in _read_members(params).items():
                if name not in known:
                    known[name] = self._kwargs.read(raw, f"[{name}]")
        return known


class _Collector:
    """`*args` or `**kwargs`: reads one value at a time."""

    def __init__(self, parameter: Parameter) -> None:
        self._name = parameter.name
        self._read = decoder_of(parameter.annotation)

    def read(self, raw: Raw, place: str) -> Any:
        try:
            return self._read(raw)
        except DecodeError as error:
            text = f"parameter `{self._name}{place}`: {error}"
            raise InvalidParams(Mismatch(text, self._name)) from None


def _struct_reader(parameters: list[Parameter], *, is_array: bool, is_open: bool) -> Reader:
    """A decoder into a struct with one field for each parameter, in order."""
    fields = [(f"p{i}", p.annotation, _default(p)) for i, p in enumerate(parameters)]
    struct = msgspec.defstruct(
        "Params",
        fields,
        array_like=is_array,
        forbid_unknown_fields=not is_open,
        kw_only=not is_array,
        rename={f"p{i}": p.name for i, p in enumerate(parameters)},
        gc=False,
    )
    return decoder_of(struct)


def _default(parameter: Parameter) -> Any:
    value = parameter.default
    if value is Parameter.empty:
        return msgspec.field()
    return msgspec.field(default_factory=lambda: value)


def _first_required(parameters: list[Parameter], kind: Any) -> str | None:
    return next((p.name for p in parameters if p.kind == kind and p.default is p.empty), None)


def _first(parameters: list[Parameter], kind: Any) -> _Collector | None:
    return next((_Collector(p) for p in parameters if p.kind == kind), None)


def _misplaced(name: str, way: str) -> InvalidParams:
    return InvalidParams(Mismatch(f"parameter `{name}` must be given by {way}", name))
