"""From what a program wants served to what a fresh interpreter can import: `module:name`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

from ...workers.service import Service


class NotServable(ValueError):
    """The service cannot be imported by another process; the message says what to do."""


def target_of(service: Service | str) -> str:
    """`service` if it is a text already; else where its handlers find it. NotServable."""
    if isinstance(service, str):
        return service
    if not isinstance(service, Service):
        raise TypeError(f"a Service or a text as 'myapp:service', not {type(service).__name__}")
    found = [place for place in _places(service) if place[0] != "__main__"]
    for module, attribute in found:
        where = _importable(module)
        if where:
            return f"{where}:{attribute}"
    raise NotServable(_why_not(service, found))


def _places(service: Service) -> Iterator[tuple[str, str]]:
    """(module, attribute) by which it is known: where it was made, where its functions are, others.

    Of the others, those that bear its name only in passing (`from myapp import service`) will do.
    """
    homes = [service.module, *(m.function.__module__ for m in service.methods.values())]
    for name in dict.fromkeys([*homes, *sorted(sys.modules)]):
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):
            for attribute, value in list(vars(module).items()):
                if value is service:
                    yield name, attribute


def _importable(name: str) -> str:
    """How a process with the same path imports that module: its name, or its file; "" if neither.

    Test runners load files under names that no import statement finds.
    """
    file: str | None = getattr(sys.modules[name], "__file__", None)
    spec = _find(name)
    if spec is not None and file and spec.origin and _same(spec.origin, file):
        return name
    package = getattr(sys.modules[name], "__package__", "")
    if file and file.endswith(".py") and os.path.exists(file) and (not package or spec is None):
        return os.path.abspath(file)
    return ""


def _find(name: str) -> ModuleSpec | None:
    """As an interpreter finds it that has not loaded it (importlib.util.find_spec looks there)."""
    path, spec = None, None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        prefix = ".".join(parts[:count])
        found = (f.find_spec(prefix, path) for f in sys.meta_path if hasattr(f, "find_spec"))
        spec = next((each for each in found if each is not None), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _why_not(service: Service, found: list[tuple[str, str]]) -> str:
    advice = "put it into a module of its own (services.py) and pass 'services:service'"
    if found:
        names = ", ".join(f"{module}:{name}" for module, name in found)
        return f"no other process can import the service ({names}): {advice}"
    if service.module == "__main__":
        where = getattr(sys.modules.get("__main__"), "__file__", None)
        place = "a notebook or an interactive session"
        if where and os.path.exists(where):
            place = f"the program that runs ({where})"
        return (
            f"the service was made in {place}, and the processes that are to run its functions"
            f" cannot import that: {advice}"
        )
    return (
        "the service stands in no module under a name of its own, so no other process can find"
        f" it: {advice}"
    )
