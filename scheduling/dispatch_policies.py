"""Which limits are in force for a call: sources, precedence, templates (Pulsar: dispatch rates).

All levels apply together (`dispatch_budget.py`); each has sources of its own, first match first:

    server                  the server's rate
    service                 the budget that all methods of a service share (ours)
    resource                the budget of the methods that a policy lists (ours)
    caller                  the caller by name, any caller: over all methods (ours)
    method                  method policy, service policy, server default
    (method, caller)        the caller named in the method policy, the method policy for callers,
                            service policy, server default

The first source that limits anything is in force *as a whole*: a limit that it does not set is not
taken from the next one. A source that limits nothing counts as absent. Service policies and server
defaults are templates: every method, every pair of method and caller, has counters of its own.

A number of 0 or less is no limit, as in Pulsar; `block` stops a key outright. The service of a
method is what stands before the last dot of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .dispatch_rate import BLOCKED, MOST_LIMIT, MOST_PERIOD_S, NONE
from .errors import BadValue

CALLS, BYTES, HANDLER = range(3)
"""The dimensions of a rate, in the order of `Rate.limits`: calls, bytes, microseconds."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Limits per period of `period_s` seconds; 0 or less is no limit. BadValue out of bounds.

    `handler_ms` is time of handlers. `running` caps calls that run at once, whatever the period.
    `relative`: the limits of calls and bytes are added to the average arrivals of the method.
    `max_debt_periods` caps what is carried over to that many further periods.
    """

    calls: int = NONE
    bytes: int = NONE
    handler_ms: int = NONE
    running: int = NONE
    period_s: int = 1
    relative: bool = False
    max_debt_periods: int | None = None
    block: bool = False

    def __post_init__(self) -> None:
        if self.period_s < 1:
            raise BadValue(f"period_s = {self.period_s}: must be 1 second or more")
        if self.max_debt_periods is not None and self.max_debt_periods < 0:
            raise BadValue(f"max_debt_periods = {self.max_debt_periods}: must be 0 or more")
        for name, most, unit in (
            ("calls", MOST_LIMIT, " per period; shorten period_s"),
            ("bytes", MOST_LIMIT, " per period; shorten period_s"),
            ("handler_ms", MOST_LIMIT // 1000, " per period; shorten period_s"),
            ("running", MOST_LIMIT, ""),
            ("period_s", MOST_PERIOD_S, ""),
            ("max_debt_periods", MOST_LIMIT, ""),
        ):
            value = getattr(self, name)
            if value is not None and value > most:
                raise BadValue(f"{name} = {value}: at most {most}{unit}")

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> Rate:
        """From a table of a file; BadValue names the key, the value and the place."""
        known = {one.name for one in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise BadValue(
                    f"{where}: unknown key {name!r}; known are {', '.join(sorted(known))}"
                )
            flag = name in ("relative", "block")
            if isinstance(value, bool) is not flag or not isinstance(value, int):
                kind = "true or false" if flag else "a whole number"
                raise BadValue(f"{where}: {name} = {value!r} is not {kind}")
        try:
            return cls(**values)
        except BadValue as error:
            raise BadValue(f"{where}: {error}") from None

    @property
    def limits(self) -> tuple[int, int, int]:
        """The limit of each dimension: NONE, BLOCKED or a number; handler time in microseconds."""
        calls = BLOCKED if self.block else _number(self.calls)
        return calls, _number(self.bytes), _number(self.handler_ms, 1000)

    @property
    def period_ns(self) -> int:
        """The length of a period."""
        return self.period_s * 1_000_000_000

    @property
    def limits_anything(self) -> bool:
        """Whether this source is there at all."""
        return self.running > 0 or any(limit != NONE for limit in self.limits)


@dataclass(frozen=True, kw_only=True)
class Templates:
    """The rate of each method and that of each pair of method and caller."""

    method: Rate | None = None
    caller: Rate | None = None


@dataclass(frozen=True, kw_only=True)
class MethodPolicy(Templates):
    """The rates of one method, of each of its callers and of callers by name."""

    callers: Mapping[str, Rate] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A budget that some methods share, whatever their service."""

    rate: Rate
    methods: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Policies:
    """All sources. `groups` are budgets shared by a service; `exempt` methods have no limit.

    `callers` are budgets of callers by name over all methods, `each_caller` those of all others.
    """

    server: Rate | None = None
    resources: Mapping[str, Resource] = field(default_factory=dict)
    callers: Mapping[str, Rate] = field(default_factory=dict)
    each_caller: Rate | None = None
    groups: Mapping[str, Rate] = field(default_factory=dict)
    methods: Mapping[str, MethodPolicy] = field(default_factory=dict)
    services: Mapping[str, Templates] = field(default_factory=dict)
    defaults: Templates = Templates()
    exempt: frozenset[str] = frozenset()

    @property
    def are_relative(self) -> bool:
        """Whether some rate is added to the average arrivals of a method."""
        templates = (self.defaults, *self.services.values(), *self.methods.values())
        named = (rate for policy in self.methods.values() for rate in policy.callers.values())
        rates = [rate for one in templates for rate in (one.method, one.caller)]
        return any(rate is not None and rate.relative for rate in (*rates, *named))

    def server_rate(self) -> Rate | None:
        """The rate of the whole server."""
        return in_force(self.server)

    def service_rate(self, service: str) -> Rate | None:
        """The rate that the methods of a service share."""
        return in_force(self.groups.get(service))

    def method_rate(self, method: str) -> Rate | None:
        """The rate of a method."""
        own, service = self._policies_of(method)
        return in_force(own.method, service.method, self.defaults.method)

    def resources_of(self, method: str) -> list[str]:
        """The resources that a method shares."""
        return [name for name, one in self.resources.items() if method in one.methods]

    def all_methods_rate(self, caller: str | None = None) -> Rate | None:
        """The rate of a caller over all methods; None: of those that no policy names."""
        named = None if caller is None else self.callers.get(caller)
        return in_force(named, self.each_caller)

    def names(self, method: str, caller: str) -> bool:
        """Whether a policy is for this caller by name."""
        return caller in self._policies_of(method)[0].callers

    def caller_rate(self, method: str, caller: str | None = None) -> Rate | None:
        """The rate of a caller of a method; None: of those that no policy names."""
        own, service = self._policies_of(method)
        named = None if caller is None else own.callers.get(caller)
        return in_force(named, own.caller, service.caller, self.defaults.caller)

    def _policies_of(self, method: str) -> tuple[MethodPolicy, Templates]:
        service = self.services.get(service_of(method), _NO_TEMPLATES)
        return self.methods.get(method, _NO_POLICY), service


_NO_POLICY, _NO_TEMPLATES = MethodPolicy(), Templates()


def service_of(method: str) -> str:
    """The service of a method: its name before the last dot, "" without one."""
    return method.rpartition(".")[0]


def in_force(*sources: Rate | None) -> Rate | None:
    """The first source that limits anything."""
    for rate in sources:
        if rate is not None and rate.limits_anything:
            return rate
    return None


def _number(limit: int, unit: int = 1) -> int:
    return limit * unit if limit > 0 else NONE
