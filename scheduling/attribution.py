"""Who takes how much of the handlers' time, and with what: whom an alarm names."""

from __future__ import annotations

from dataclasses import dataclass


class Attribution:
    """Who takes how much of the handlers' time, by user and, of each, by job, method, address.

    `add` what calls of one kind took; `CALL_NS` more for each call is what a handler and a reader
    spend on it outside of its method, so that masses of calls that take nothing count, too.
    """

    CALL_NS = 50_000

    def __init__(self) -> None:
        self._taken: dict[str, list[tuple[tuple[str, str, str], float]]] = {}
        self._calls: dict[str, float] = {}

    def add(
        self, user: str, job: str, method: str, address: str, calls: float, busy_ns: float
    ) -> None:
        taken_ns = max(0.0, busy_ns) + max(0.0, calls) * self.CALL_NS
        if taken_ns > 0:
            self._taken.setdefault(user, []).append(((job, method, address), taken_ns))
            self._calls[user] = self._calls.get(user, 0.0) + max(0.0, calls)

    @property
    def users(self) -> int:
        return len(self._taken)

    def heaviest(self) -> Suspect | None:
        """None where nobody called. What is equal goes by name."""
        sums = {user: sum(ns for _, ns in kinds) for user, kinds in self._taken.items()}
        if not sums:
            return None
        user = max(sums, key=lambda name: (sums[name], name))
        kinds = self._taken[user]
        job, method, address = (_heaviest(kinds, at) for at in range(3))
        share = sums[user] / sum(sums.values())
        return Suspect(user, share, job, method, address, self._calls[user])


@dataclass(frozen=True, slots=True)
class Suspect:
    """`share` of the handlers' time, 0 to 1; "" where calls have no job, or no address. `calls`
    are those that were counted."""

    user: str
    share: float
    job: str
    method: str
    address: str
    calls: float


def _heaviest(kinds: list[tuple[tuple[str, str, str], float]], at: int) -> str:
    sums: dict[str, float] = {}
    for names, taken_ns in kinds:
        sums[names[at]] = sums.get(names[at], 0.0) + taken_ns
    return max(sums, key=lambda name: (sums[name], name))
