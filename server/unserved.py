"""Rates for methods and services that no handler serves: most likely a name is misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ..scheduling.dispatch_lines import policies_of
from ..scheduling.dispatch_policies import service_of


class Unserved(NamedTuple):
    """A `rate` of `key` is for `name`, a method or a service; `nearest` is one there is, or ""."""

    key: str
    rate: str
    name: str
    nearest: str


def unserved(rates: Iterable[tuple[str, str]], methods: Collection[str]) -> Iterator[Unserved]:
    """Those among `rates`, (line, key) each, where `methods` are served."""
    services = {service_of(method) for method in methods} - {""}
    for line, key in rates:
        policies = policies_of([line])
        named = {*policies.methods, *policies.exempt}
        named.update(*(resource.methods for resource in policies.resources.values()))
        for name in sorted(named.difference(methods)):
            yield Unserved(key, line, name, _nearest(name, methods))
        for name in sorted({*policies.groups, *policies.services}.difference(services)):
            yield Unserved(key, line, name, _nearest(name, services))


def _nearest(name: str, known: Collection[str]) -> str:
    return next(iter(difflib.get_close_matches(name, sorted(known), 1)), "")
