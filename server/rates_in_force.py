"""Rates are put in force, at the start and while the server runs: the text, then every row.

Only the janitor does it once there are readers, and may die at any point of it: the same again goes
on where it was. A row that a reader makes meanwhile by the rates before is renewed by the next one
that names it (`reader.throttle`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..scheduling.dispatch_lines import policies_of
from ..scheduling.errors import BadValue
from ..shm.layout import RATES_BYTES, Geometry
from ..shm.limiter_counters import L_CALLER, L_KEY
from ..shm.rates import RatesTooLong
from ..shm.shared import Shared
from ..shm.terms import Terms
from .limits import Key, Limits, Switches

ROWS_AT_A_TIME = 64  # that are renewed under one lock


def put_in_force(shared: Shared, switches: Switches, lines: Iterable[str], now_ns: int) -> Limits:
    """These rates from now on; every row pays with its old limits first, and keeps what is used.

    The same ones again change nothing. BadValue, RatesTooLong: nothing is changed.
    """
    text = _text(switches, lines)
    version, before = shared.rates.read()
    limits, lock = Limits(shared.names, version, text), shared.table.queue_lock
    if not version or text != before:
        shared.rates.check(text)  # outside of the lock, which no exception may leave
        with lock:
            limits.version = shared.rates.write(text)
    used = shared.table.limiters.used_rows()
    for first in range(0, len(used), ROWS_AT_A_TIME):
        rows = [(row, _key_of(shared, row)) for row in used[first : first + ROWS_AT_A_TIME]]
        terms = [(row, key, limits.terms_of(key)) for row, key in rows if key.key]
        with lock:
            for row, key, new in terms:
                renew_row(shared, row, key, new, limits.version, now_ns)
    return limits


def renew_row(shared: Shared, row: int, key: Key, terms: Terms, version: int, now_ns: int) -> None:
    """`terms` of `version` for a row, if it is that key's still (queue lock held)."""
    limiters = shared.table.limiters
    if limiters.is_key(row, *key):
        limiters.apply(row, terms, version, now_ns)
        shared.table.held.look(limiters.at(row))


def check(geometry: Geometry, most_callers: int, switches: Switches, lines: Iterable[str]) -> None:
    """BadValue if the segment has no room for these rates, which a new start would make."""
    lines = list(lines)
    policies = policies_of(lines)
    named = len(policies.callers) + len(policies.resources)
    named += sum(len(policy.callers) for policy in policies.methods.values())
    owners = geometry.readers if switches.per_process else 1
    room = max(0, geometry.limiters // owners - most_callers - 3 * geometry.methods)
    if named > room:
        raise BadValue(
            f"the rates name {named} callers and resources, and there is room for {room}:"
            " restart with them in the file, which makes room, or take some away"
        )
    length = len(_text(switches, lines).encode())
    if length > RATES_BYTES:
        raise RatesTooLong(f"all rates together have {length} bytes: at most {RATES_BYTES}")


def _text(switches: Switches, lines: Iterable[str]) -> str:
    return "\n".join([switches.line(), *lines])


def _key_of(shared: Shared, row: int) -> Key:
    q, at = shared.segment.q, shared.table.limiters.at(row)
    return Key(q[at + L_KEY], q[at + L_CALLER])
