"""The counters of all keys: which there are, and which a call is charged to.

    ("server",)                      broker-wide
    ("service", service)             a resource group
    ("method", method)               a topic
    ("caller", method, caller)       a subscription
    ("others", method)               all callers of a method that found the table full

A counter is made at the first call of its key, as if it had been there since the policies are in
force; a key without a rate has none. One that is idle can be dropped, for a new one is the same.

The table holds `most_callers` counters of callers; one that a policy names has its own in any case.
Those who find the table full share one counter per method, and while that has something used, no
other caller of the method gets one of its own: what it used in common is not forgotten.
"""

from __future__ import annotations

from .dispatch_limiter import Limiter
from .dispatch_policies import Policies, Rate, service_of

Key = tuple[str, ...]
DEFAULT_MOST_CALLERS = 4096


class Counters:
    """Limiters by key, under `policies`."""

    def __init__(
        self,
        policies: Policies,
        now_ns: int,
        *,
        paced: bool = False,
        most_callers: int = DEFAULT_MOST_CALLERS,
    ) -> None:
        self.policies = policies
        self._since_ns, self._paced, self._most_callers = now_ns, paced, most_callers
        self._limiters: dict[Key, Limiter] = {}
        self._averages: dict[str, tuple[float, float, int]] = {}
        self._callers = 0

    def __len__(self) -> int:
        return len(self._limiters)

    def of(self, method: str, caller: str, now_ns: int) -> tuple[Limiter, ...]:
        """What a call is charged to, the server first; nothing for an exempt method."""
        if method in self.policies.exempt:
            return ()
        found = [
            self._limiter(("server",)),
            self._limiter(("service", service_of(method))),
            self._limiter(("method", method)),
            self._limiter(self._caller_key(method, caller, now_ns)),
        ]
        return tuple(limiter for limiter in found if limiter is not None)

    def apply(self, policies: Policies, now_ns: int) -> None:
        """Puts other policies in force at once; a key whose rate is the same notices nothing."""
        if policies == self.policies:
            return
        self.policies, self._since_ns = policies, now_ns
        for key, limiter in list(self._limiters.items()):
            rate = self._rate_of(key)
            if rate is None:
                self._drop(key)
            else:
                limiter.apply(rate, now_ns)

    def averaged(self, method: str, calls: float, size: float, now_ns: int) -> None:
        """Average calls and bytes that arrive for a method per period, at a renewal."""
        self._averages[method] = calls, size, now_ns
        for key, limiter in self._limiters.items():
            if _method_of(key) == method:
                limiter.averaged((calls, size), now_ns)

    def forget_idle(self, now_ns: int) -> None:
        """Drops the counters that a new one would not differ from."""
        for key, limiter in list(self._limiters.items()):
            if limiter.is_idle(now_ns):
                self._drop(key)

    def _limiter(self, key: Key) -> Limiter | None:
        limiter = self._limiters.get(key)
        if limiter is not None:
            return limiter
        rate = self._rate_of(key)
        return None if rate is None else self._made(key, rate)

    def _made(self, key: Key, rate: Rate) -> Limiter:
        limiter = self._limiters[key] = Limiter(rate, self._since_ns, paced=self._paced)
        average = self._averages.get(_method_of(key))
        if average is not None:
            calls, size, since_ns = average
            limiter.averaged((calls, size), since_ns)
        self._callers += key[0] == "caller"
        return limiter

    def _drop(self, key: Key) -> None:
        del self._limiters[key]
        self._callers -= key[0] == "caller"

    def _caller_key(self, method: str, caller: str, now_ns: int) -> Key:
        key = ("caller", method, caller)
        if key in self._limiters or self.policies.names(method, caller):
            return key
        others = self._limiters.get(("others", method))
        in_common = others is not None and not others.is_idle(now_ns)
        full = self._callers >= self._most_callers
        return ("others", method) if full or in_common else key

    def _rate_of(self, key: Key) -> Rate | None:
        match key:
            case ("server",):
                return self.policies.server_rate()
            case ("service", service):
                return self.policies.service_rate(service)
            case ("method", method):
                return self.policies.method_rate(method)
            case ("caller", method, caller):
                return self.policies.caller_rate(method, caller)
        return self.policies.caller_rate(key[1])


def _method_of(key: Key) -> str:
    return key[1] if key[0] in ("method", "caller", "others") else ""
