"""What a service offers, as an OpenRPC document (https://spec.open-rpc.org, 1.3): `rpc.discover`.

Schemas come from the annotations by which parameters are read, so that they cannot promise what
the service refuses. A result without an annotation, or with one that only type checkers
understand, is any value. `*args` and `**kwargs` have no word in OpenRPC and are left out.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import orjson

from .batch_signature import item_of, of_one_call
from .results import encode
from .signature import declared_parameters

if TYPE_CHECKING:
    from .service import Method, Service

VERSION: Final = "1.3.2"
DISCOVER: Final = "rpc.discover"
_COLLECTS: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_REFERENCES: Final = "#/components/schemas/{name}"


def document(service: Service) -> dict[str, Any]:
    """The document, as plain JSON values; methods in the order of their declaration."""
    methods = list(service.methods.values())
    described = {method.name: _Types(method) for method in methods}
    kinds = [kind for types in described.values() for kind in types.all()]
    schemas, components = _schemas(kinds)
    rest = iter(schemas)
    found: dict[str, Any] = {
        "openrpc": VERSION,
        "info": {"title": service.name or "faircall service", "version": service.version},
        "methods": [_method(method, described[method.name], rest) for method in methods],
    }
    if components:
        found["components"] = {"schemas": components}
    return found


class _Types:
    """The parameters of one call and the type of its result, in the order of their schemas."""

    def __init__(self, method: Method) -> None:
        function, declared = method.function, declared_parameters(method.function)
        if method.batch:
            declared = of_one_call(function, declared)
        self.parameters = [p for p in declared if p.kind not in _COLLECTS]
        self.result = _result_of(function)
        if method.batch:
            self.result = item_of(self.result)

    def all(self) -> list[Any]:
        return [*(p.annotation for p in self.parameters), self.result]


def _method(method: Method, types: _Types, schemas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Takes its schemas from `schemas`."""
    rest = iter(schemas)
    params = [_parameter(p, next(rest)) for p in types.parameters]
    summary, _, text = (inspect.getdoc(method.function) or "").partition("\n")
    said = {"summary": summary.strip(), "description": text.strip()}
    own: dict[str, Any] = {"idempotent": method.idempotent}
    if method.timeout_s is not None:
        own["timeout_s"] = method.timeout_s
    return {
        "name": method.name,
        **{name: value for name, value in said.items() if value},
        "paramStructure": _structure(types.parameters),
        "params": params,
        "result": {"name": "result", "schema": next(rest)},
        "x-faircall": own,
    }


def _parameter(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    required = parameter.default is parameter.empty
    if not required:
        schema = {**schema, **_default(parameter.default)}
    return {"name": parameter.name, "required": required, "schema": schema}


def _default(value: Any) -> dict[str, Any]:
    """As JSON has it; nothing where it has none."""
    try:
        return {"default": orjson.loads(encode(value))}
    except (TypeError, ValueError):
        return {}


def _structure(parameters: list[Parameter]) -> str:
    required = {p.kind for p in parameters if p.default is p.empty}
    if Parameter.KEYWORD_ONLY in required:
        return "by-name"
    return "by-position" if Parameter.POSITIONAL_ONLY in required else "either"


def _result_of(function: Callable[..., Any]) -> Any:
    """The annotation of the result; Any if there is none that has a schema."""
    hint = getattr(function, "__annotations__", {}).get("return", Any)

    def written() -> None: ...

    written.__annotations__ = {"return": hint}
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        found = typing.get_type_hints(written, globalns=scope, include_extras=True)["return"]
        _schemas([found])
    except Exception:
        return Any
    return found


def _schemas(kinds: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The JSON Schemas of `kinds`, in order, and the components that these refer to."""
    found, components = msgspec.json.schema_components(
        kinds, schema_hook=_schema_of_other, ref_template=_REFERENCES
    )
    return list(found), components


def _schema_of_other(kind: Any) -> dict[str, Any]:
    """msgspec's `schema_hook`: what `signature` makes besides."""
    if (typing.get_origin(kind) or kind) is np.ndarray:
        return {"type": "array"}
    if kind is object:
        return {}
    raise NotImplementedError
