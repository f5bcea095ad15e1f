"""Which limiters a call is charged to, with which terms: rates in force, as rows of the segment.

The text in the shared memory begins with a line of switches (`Switches`); the other lines are those
of `scheduling.dispatch_lines`. Whoever needs them keeps them decoded, and looks at the version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..scheduling.dispatch_lines import policies_of
from ..scheduling.dispatch_policies import HANDLER, Policies, Rate, service_of
from ..scheduling.dispatch_rate import NONE
from ..shm import terms as rows
from ..shm.names import Names
from ..shm.terms import Kind, Terms, key_of, kind_of, number_of, process_of

COUNTED = {
    "request": rows.REQUEST,
    "answer": rows.ANSWER,
    "both": rows.REQUEST | rows.ANSWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What holds for all limits. `batches`: a batch counts as one call; `per_process`: each reader
    has budgets of its own; `backlog_only`: callers without a backlog are not limited;
    `charge_dropped`: calls that are withdrawn while they wait are charged, too."""

    counted_bytes: str = "request"
    paced: bool = False
    dry_run: bool = False
    batches: bool = False
    per_process: bool = False
    backlog_only: bool = False
    charge_dropped: bool = False
    most_callers: int = 1024

    @property
    def flags(self) -> int:
        """Those of a limiter's row."""
        paced, dry_run = rows.PACED * self.paced, rows.DRY_RUN * self.dry_run
        return COUNTED[self.counted_bytes] | paced | dry_run

    @property
    def looks_at_calls(self) -> bool:
        """Whether a reader marks single calls, beside their limiters."""
        return self.batches or self.backlog_only

    def line(self) -> str:
        return (
            f"{self.counted_bytes} {int(self.paced)} {int(self.dry_run)} {int(self.batches)}"
            f" {int(self.per_process)} {int(self.backlog_only)} {int(self.charge_dropped)}"
            f" {self.most_callers}"
        )

    @classmethod
    def of(cls, line: str) -> Switches:
        counted, *flags, most = line.split()
        paced, dry_run, batches, per_process, backlog_only, dropped = (f == "1" for f in flags)
        return cls(
            counted_bytes=counted,
            paced=paced,
            dry_run=dry_run,
            batches=batches,
            per_process=per_process,
            backlog_only=backlog_only,
            charge_dropped=dropped,
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
        self.counts_arrivals = self.policies.are_relative
        callers = {*self.policies.callers}
        for policy in self.policies.methods.values():
            callers.update(policy.callers)
        self._callers = {self.hash_of(name): name for name in callers}
        self._shared = {_number(name): name for name in self.policies.groups}
        self._shared |= {_number(name): name for name in self.policies.resources}

    def hash_of(self, caller: str) -> int:
        """What stands for a caller's name in a key."""
        return self._names.identities.key(caller)[0]

    def keys(self, method: str, row: int, caller: str, process: int = 0) -> list[tuple[Key, Terms]]:
        """What a call of `method`, which has `row`, is charged to, the server first.

        `process` is 0, or the number of its reader + 1 where each has budgets of its own. Where
        only a backlog is limited, the pair of method and caller comes last, limits or not.
        """
        if method in self.policies.exempt:
            return []
        found = list(self._keys(method, row, caller, process))
        learns = any(rate.limits[HANDLER] != NONE for _, rate in found)
        own = Key(key_of(Kind.METHOD, row, process))
        if learns and own not in [key for key, _ in found]:
            found.append((own, Rate()))
        if found and self.switches.backlog_only:
            pair = Key(key_of(Kind.PAIR, row, process), self.hash_of(caller))
            rates = dict(found)
            rate = rates.pop(pair, Rate())
            found = [*rates.items(), (pair, rate)]
        return [(key, self._terms(key, rate, learns)) for key, rate in found]

    def _keys(
        self, method: str, row: int, caller: str, process: int = 0
    ) -> Iterator[tuple[Key, Rate]]:
        policies, hashed = self.policies, self.hash_of(caller)
        if rate := policies.server_rate():
            yield Key(key_of(Kind.SERVER, 0, process)), rate
        if rate := policies.service_rate(service := service_of(method)):
            yield Key(key_of(Kind.SERVICE, _number(service), process)), rate
        for name in policies.resources_of(method):
            if (rate := policies.resources[name].rate).limits_anything:
                yield Key(key_of(Kind.RESOURCE, _number(name), process)), rate
        if rate := policies.method_rate(method):
            yield Key(key_of(Kind.METHOD, row, process)), rate
        if rate := policies.all_methods_rate(caller):
            yield Key(key_of(Kind.CALLER, 0, process), hashed), rate
        if rate := policies.caller_rate(method, caller):
            yield Key(key_of(Kind.PAIR, row, process), hashed), rate

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
        process = process_of(key.key)
        if kind_of(key.key) is Kind.CALLER:
            others, rate = key_of(Kind.OTHERS, 0, process), self.policies.all_methods_rate()
        else:
            row = number_of(key.key)
            method = self._names.methods.name(row)
            others, rate = key_of(Kind.OTHERS, row + 1, process), self.policies.caller_rate(method)
        return Key(others), self._terms(Key(others), rate or Rate(), False)

    def terms_of(self, key: Key) -> Terms:
        """Those of a row that there is, under these rates."""
        rate = self._rate_of(key) or Rate()
        learns = kind_of(key.key) is Kind.METHOD and self._learns(number_of(key.key))
        return self._terms(key, rate, learns)

    def describe(self, key: Key, caller: str | None) -> str:
        """The key for people; `caller` is its caller's name, if anybody knows it."""
        process = process_of(key.key)
        reader = f" (reader {process - 1})" if process else ""
        return self._describe(key, caller) + reader

    def _describe(self, key: Key, caller: str | None) -> str:
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
        if kind is Kind.CALLER or (kind is Kind.OTHERS and not number):
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


def _number(name: str) -> int:
    """What stands for a service or a resource in a key."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=5).digest(), "little")
