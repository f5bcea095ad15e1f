"""Whether a call may be dispatched now, all levels together (Pulsar: dispatch throttling).

A call may go when the gates of all its levels are open (`dispatch_counters.py`), and is then
charged to all of them; one that is held back charges none. Calls and bytes of the request are known
when it is taken. Handler time and bytes of the answer are reserved at the method's average, and
settled:

    ended, well or badly         what it used
    never began (given back)     nothing
    its handler died (lost)      what was reserved; a second run is charged again

What a reservation had too much comes back as far as no renewal has paid it, so a settlement never
gives away what others used; what it lacked is charged to the period of the settlement.

Two kinds of calls pass the gates: the items of a batch whose head was charged, and calls of a queue
without a backlog, if those are not limited (`dispatch_settings.py`). They too wait where only a
running call's end makes room; and the latter where a level is blocked.

Differs from Pulsar: charged with the decision, not after delivery, so that concurrent readers
cannot all spend the same quota.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .dispatch_counters import DEFAULT_MOST_CALLERS, Counters
from .dispatch_estimates import MethodEstimate
from .dispatch_limiter import SETTLES_NS, Limiter
from .dispatch_policies import Policies
from .dispatch_rate import MOST_LIMIT, NEVER_NS
from .dispatch_settings import DispatchSettings


class Use(NamedTuple):
    """What a call uses, in the order of the dimensions of a rate."""

    calls: int = 0
    bytes: int = 0
    handler_us: int = 0


class Charge(NamedTuple):
    """A taken call, to be settled once. `positions[i]`: the totals of `limiters[i]`, () if free."""

    method: str
    request_bytes: int
    reserved: Use
    limiters: tuple[Limiter, ...]
    positions: tuple[Sequence[int], ...]


class DispatchBudget:
    """The budget of one server; every `now_ns` is the time of the call, of one monotonic clock."""

    def __init__(
        self,
        policies: Policies,
        settings: DispatchSettings | None = None,
        now_ns: int = 0,
        *,
        most_callers: int = DEFAULT_MOST_CALLERS,
    ) -> None:
        self.settings = settings or DispatchSettings()
        paced = self.settings.paced
        self.counters = Counters(policies, now_ns, paced=paced, most_callers=most_callers)
        self._estimates: dict[str, MethodEstimate] = {}

    def opens_ns(self, method: str, caller: str, now_ns: int) -> int:
        """When a call may go, if nobody else uses the quota; at most `now_ns` if it may now.

        SETTLES_NS: when a running call is settled. NEVER_NS: blocked.
        """
        return self._opens_ns(method, self.counters.of(method, caller, now_ns), now_ns)

    def room(self, method: str, caller: str, dimension: int, now_ns: int) -> int:
        """Units of a dimension until a gate shuts; MOST_LIMIT without a limit."""
        levels = self.counters.of(method, caller, now_ns)
        return min((one.room(dimension, now_ns) for one in levels), default=MOST_LIMIT)

    def try_take(
        self, method: str, caller: str, calls: int, request_bytes: int, now_ns: int
    ) -> Charge | None:
        """Charges all levels if all gates are open; None, and nothing charged, if one is not.

        `calls` are those of a batch, or what `counted_calls` makes of them.
        """
        levels = self.counters.of(method, caller, now_ns)
        if self._opens_ns(method, levels, now_ns) > now_ns:
            return None
        return self._charged(method, calls, request_bytes, levels, now_ns)

    def take(self, method: str, caller: str, calls: int, request_bytes: int, now_ns: int) -> Charge:
        """Charges all levels whatever the gates say: for what is dispatched already."""
        levels = self.counters.of(method, caller, now_ns)
        return self._charged(method, calls, request_bytes, levels, now_ns)

    def try_take_item(self, method: str, caller: str, now_ns: int) -> Charge | None:
        """An item of a batch whose head was charged: only its handler time is reserved."""
        levels = self.counters.of(method, caller, now_ns)
        if self._waits_for_an_end(method, levels):
            return None
        return self._charged(method, 0, 0, levels, now_ns)

    def try_take_free(self, method: str, caller: str, now_ns: int) -> Charge | None:
        """A call of a queue without a backlog: nothing is charged, now or at its end."""
        levels = self.counters.of(method, caller, now_ns)
        blocked = any(one.opens_ns(now_ns) >= NEVER_NS for one in levels)
        if blocked or self._waits_for_an_end(method, levels):
            return None
        return self._begun(Charge(method, 0, Use(), levels, ()))

    def end(self, charge: Charge, handler_us: int, answer_bytes: int, now_ns: int) -> None:
        """The call ended, well or badly, and used so much."""
        counted = self.settings.counted_bytes.of(charge.request_bytes, answer_bytes)
        self.settle(charge, Use(charge.reserved.calls, counted, handler_us), now_ns)
        self._estimate(charge.method).settled(handler_us, answer_bytes)

    def give_back(self, charge: Charge, now_ns: int) -> None:
        """The call never began: nothing was used."""
        self.settle(charge, Use(), now_ns)

    def lose(self, charge: Charge, now_ns: int) -> None:
        """The call's handler died: what was reserved stays charged."""
        self.settle(charge, charge.reserved, now_ns)

    def settle(self, charge: Charge, used: Use, now_ns: int) -> None:
        """Replaces what was reserved by what was used, once per charge."""
        for limiter, positions in zip(charge.limiters, charge.positions, strict=False):
            limiter.settle(charge.reserved, used, positions, now_ns)
        for limiter in charge.limiters:
            limiter.running -= 1
        self._estimate(charge.method).running -= 1

    def _opens_ns(self, method: str, levels: Sequence[Limiter], now_ns: int) -> int:
        latest = SETTLES_NS if self._waits_for_an_end(method, levels) else 0
        for limiter in levels:
            latest = max(latest, limiter.opens_ns(now_ns))
        return latest

    def _waits_for_an_end(self, method: str, levels: Sequence[Limiter]) -> bool:
        first_runs = self._estimate(method).first_call_runs()
        return any(one.is_full() or (first_runs and one.limits_handler) for one in levels)

    def _charged(
        self, method: str, calls: int, request_bytes: int, levels: tuple[Limiter, ...], now_ns: int
    ) -> Charge:
        estimate = self._estimate(method)
        counted = self.settings.counted_bytes.of(request_bytes, estimate.answer_bytes or 0)
        use = Use(calls, counted, estimate.handler_us or 0)
        positions = tuple(limiter.charge(use, now_ns) for limiter in levels)
        return self._begun(Charge(method, request_bytes, use, levels, positions))

    def _begun(self, charge: Charge) -> Charge:
        for limiter in charge.limiters:
            limiter.running += 1
        self._estimate(charge.method).running += 1
        return charge

    def _estimate(self, method: str) -> MethodEstimate:
        return self._estimates.setdefault(method, MethodEstimate())
