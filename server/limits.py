"""Which limiters a call is charged to, with which terms: rates in force, as rows of the segment.

The text in the shared memory begins with a line of switches (`Switches`); the other lines are those
of `scheduling.dispatch_lines`. Whoever needs them keeps them decoded, and looks at the version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..scheduling.dispatch_lines import policies_of
from ..scheduling.dispatch_policies import HANDLER, Policies, Rate, service_of
from ..scheduling.dispatch_rate import NONE
from ..shm import limiters as rows
from ..shm.limiters import Kind, Terms, key_of, kind_of, number_of
from ..shm.names import Names
from ..shm.shared import Shared

COUNTED = {
    "request": rows.REQUEST,
    "answer": rows.ANSWER,
    "both": rows.REQUEST | rows.ANSWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What holds for all limits. `batches`: a batch counts as one call."""

    counted_bytes: str = "request"
    paced: bool = False
    dry_run: bool = False
    batches: bool = False
    most_callers: int = 1024

    @property
    def flags(self) -> int:
        """Those of a limiter's row."""
        paced, dry_run = rows.PACED * self.paced, rows.DRY_RUN * self.dry_run
        return COUNTED[self.counted_bytes] | paced | dry_run

    def line(self) -> str:
        return (
            f"{self.counted_bytes} {int(self.paced)} {int(self.dry_run)} {int(self.batches)}"
            f" {self.most_callers}"
        )

    @classmethod
    def of(cls, line: str) -> Switches:
        counted, paced, dry_run, batches, most = line.split()
        return cls(
            counted_bytes=counted,
            paced=paced == "1",
            dry_run=dry_run == "1",
            batches=batches == "1",
            most_callers=int(most),
        )


class Key(NamedTuple):
    """The key of a row, and its caller's hash."""

    key: int
    caller: int = 0


class Limits:
    """The rates of one version, by key."""

    def __init__(self, names: Names, version: int, text: str) -> None:
        switches, *lines = text.splitlines()
        self.version, self._names = version, names
        self.switches = Switches.of(switches)
        self.policies: Policies = policies_of(lines)
        callers = {*self.policies.callers}
        for policy in self.policies.methods.values():
            callers.update(policy.callers)
        self._callers = {self.hash_of(name): name for name in callers}
        self._shared = {_number(name): name for name in self.policies.groups}
        self._shared |= {_number(name): name for name in self.policies.resources}

    def hash_of(self, caller: str) -> int:
        """What stands for a caller's name in a key."""
        return self._names.identities.key(caller)[0]

    def keys(self, method: str, row: int, caller: str) -> list[tuple[Key, Terms]]:
        """What a call of `method`, which has `row`, is charged to, the server first."""
        if method in self.policies.exempt:
            return []
        found = list(self._keys(method, row, caller))
        learns = any(rate.limits[HANDLER] != NONE for _, rate in found)
        own = Key(key_of(Kind.METHOD, row))
        if learns and own not in [key for key, _ in found]:
            found.append((own, Rate()))
        return [(key, self._terms(key, rate, learns)) for key, rate in found]

    def _keys(self, method: str, row: int, caller: str) -> Iterator[tuple[Key, Rate]]:
        policies, hashed = self.policies, self.hash_of(caller)
        if rate := policies.server_rate():
            yield Key(key_of(Kind.SERVER)), rate
        if rate := policies.service_rate(service := service_of(method)):
            yield Key(key_of(Kind.SERVICE, _number(service))), rate
        for name in policies.resources_of(method):
            if (rate := policies.resources[name].rate).limits_anything:
                yield Key(key_of(Kind.RESOURCE, _number(name))), rate
        if rate := policies.method_rate(method):
            yield Key(key_of(Kind.METHOD, row)), rate
        if rate := policies.all_methods_rate(caller):
            yield Key(key_of(Kind.CALLER), hashed), rate
        if rate := policies.caller_rate(method, caller):
            yield Key(key_of(Kind.PAIR, row), hashed), rate

    def is_named(self, key: Key, method: str) -> bool:
        """Whether a policy is for this caller by name: it has a row in any case."""
        name = self._callers.get(key.caller)
        if name is None:
            return False
        if kind_of(key.key) is Kind.CALLER:
            return name in self.policies.callers
        return self.policies.names(method, name)

    def others_of(self, key: Key) -> tuple[Key, Terms]:
        """The row that those share who found no room for one of their own."""
        if kind_of(key.key) is Kind.CALLER:
            others, rate = key_of(Kind.OTHERS), self.policies.all_methods_rate()
        else:
            row = number_of(key.key)
            method = self._names.methods.name(row)
            others, rate = key_of(Kind.OTHERS, row + 1), self.policies.caller_rate(method)
        return Key(others), self._terms(Key(others), rate or Rate(), False)

    def terms_of(self, key: Key) -> Terms:
        """Those of a row that there is, under these rates."""
        rate = self._rate_of(key) or Rate()
        learns = kind_of(key.key) is Kind.METHOD and self._learns(number_of(key.key))
        return self._terms(key, rate, learns)

    def describe(self, key: Key, caller: str | None) -> str:
        """The key for people; `caller` is its caller's name, if anybody knows it."""
        kind, number = kind_of(key.key), number_of(key.key)
        name = self._callers.get(key.caller) or caller or f"#{key.caller:016x}"
        if kind in (Kind.SERVICE, Kind.RESOURCE):
            return f"{kind.name.lower()} {self._shared.get(number, '?')}"
        if kind is Kind.CALLER:
            return f"caller {name}"
        if kind is Kind.OTHERS:
            method = f" of {self._names.methods.name(number - 1)}" if number else ""
            return f"other callers{method}"
        if kind is Kind.SERVER:
            return "server"
        method = self._names.methods.name(number)
        return f"method {method}" if kind is Kind.METHOD else f"caller {name} of {method}"

    def _rate_of(self, key: Key) -> Rate | None:
        kind, number, policies = kind_of(key.key), number_of(key.key), self.policies
        name = self._callers.get(key.caller)
        if kind is Kind.SERVER:
            return policies.server_rate()
        if kind is Kind.SERVICE:
            return policies.service_rate(self._shared.get(number, ""))
        if kind is Kind.RESOURCE:
            resource = policies.resources.get(self._shared.get(number, ""))
            return resource.rate if resource else None
        if kind is Kind.CALLER or key.key == key_of(Kind.OTHERS):
            return policies.all_methods_rate(name)
        method = self._names.methods.name(number - (kind is Kind.OTHERS))
        if kind is Kind.METHOD:
            return policies.method_rate(method)
        return policies.caller_rate(method, name)

    def _learns(self, row: int) -> bool:
        method = self._names.methods.name(row)
        return any(rate.limits[HANDLER] != NONE for _, rate in self._keys(method, row, ""))

    def _terms(self, key: Key, rate: Rate, learns: bool) -> Terms:
        flags = self.switches.flags
        if learns and kind_of(key.key) is Kind.METHOD:
            flags |= rows.LEARNS | number_of(key.key) + 1 << rows.LEARNS_SHIFT
        if rate.relative:
            flags |= rows.RELATIVE
        return Terms(
            limits=rate.limits,
            period_ns=rate.period_ns,
            running=max(0, rate.running),
            debt_periods=rate.max_debt_periods,
            flags=flags,
        )


def put_in_force(shared: Shared, switches: Switches, lines: Iterable[str], now_ns: int) -> Limits:
    """These rates from now on: every row that there is pays with its old limits first.

    May be repeated after a death in it. BadValue, RatesTooLong: nothing is changed.
    """
    text = "\n".join([switches.line(), *lines])
    limits, limiters = Limits(shared.names, 0, text), shared.table.limiters
    shared.rates.check(text)
    with shared.table.queue_lock:
        limits.version = shared.rates.write(text)
        for row in limiters.used_rows():
            at = limiters.at(row)
            key = Key(limiters.q[at + rows.L_KEY], limiters.q[at + rows.L_CALLER])
            limiters.apply(row, limits.terms_of(key), limits.version, now_ns)
            shared.table.held.look(at)
    return limits


def _number(name: str) -> int:
    """What stands for a service or a resource in a key."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "little")
