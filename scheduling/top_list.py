"""Who did most of late, in bounded memory: Misra and Gries' frequent items, with decay.

    weight   calls + cost
    kept     at most `keep` keys: each whose weight is over 1 / (keep + 1) of all is among them
    decay    every figure halves in `half_life_ns`, and so do the seconds that it was gathered in:
             calls / seconds is a rate, right from the start

Between two folds a key that is new gets a tally of its own, up to `most`; so counting a call is one
look into a dict. A fold keeps the heaviest. What they weighed at least is taken off those that are
kept as a *debit*: that is what a key must have more than to stay, so a key that was heavy once
makes room for one that is. What is counted is not touched by it, but for the calls of a key before
it was kept: figures are at least what is shown, and all others are summed in `others`.

Source: Misra, Gries 1982; Agarwal et al., Mergeable Summaries, 2012, which fold in the same way.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

KEEP, MOST = 256, 2048
HALF_LIFE_NS = 4_000_000_000
LEAST_WEIGHT = 0.01  # of a key that is kept, decayed: half a minute after its last call

Key = TypeVar("Key", bound=Hashable)


class Tally:
    """What one key did, decayed. `refused` has a figure per reason, or none yet; `owner` is what
    who counts wants to know of the key."""

    __slots__ = ("busy_ns", "calls", "cost", "debit", "owner", "refused")

    def __init__(self) -> None:
        self.calls = self.cost = self.busy_ns = self.debit = 0.0
        self.refused: Sequence[float] = ()
        self.owner = 0

    def refuse(self, reason: int, reasons: int, count: float = 1.0) -> None:
        """`count` calls were refused for one of `reasons` reasons."""
        refused = list(self.refused) or [0.0] * reasons
        refused[reason] += count
        self.refused = refused

    def weight(self) -> float:
        """What the key counts for among others, its debit taken off."""
        return self.calls + self.cost - self.debit

    def add(self, other: Tally) -> None:
        self.calls += other.calls
        self.cost += other.cost
        self.busy_ns += other.busy_ns
        for reason, count in enumerate(other.refused):
            self.refuse(reason, len(other.refused), count)

    def scale(self, factor: float) -> None:
        self.calls *= factor
        self.cost *= factor
        self.busy_ns *= factor
        self.debit *= factor
        if self.refused:
            self.refused = [count * factor for count in self.refused]


class TopList(Generic[Key]):
    """`tally(key).calls += 1` at each call, `fold` now and then; `others`: who was not kept."""

    def __init__(
        self,
        now_ns: int,
        keep: int = KEEP,
        most: int = MOST,
        half_life_ns: int = HALF_LIFE_NS,
    ) -> None:
        self._keep, self._most = keep, most
        self._half_life_ns, self._folded_ns = half_life_ns, now_ns
        self.tallies: dict[Key, Tally] = {}
        self.others = Tally()
        self.seconds = 0.0  # decayed

    def tally(self, key: Key) -> Tally:
        """That of `key`, which may be new."""
        found = self.tallies.get(key)
        if found is None:
            if len(self.tallies) >= self._most:
                self._shrink()
            found = self.tallies[key] = Tally()
        return found

    def fold(self, now_ns: int) -> None:
        """Keep the heaviest, and let everything decay."""
        passed_ns = max(0, now_ns - self._folded_ns)
        self._folded_ns = now_ns
        factor = 0.5 ** (passed_ns / self._half_life_ns)
        self._shrink()
        for key, tally in list(self.tallies.items()):
            tally.scale(factor)
            if tally.calls + tally.cost < LEAST_WEIGHT:
                self.others.add(self.tallies.pop(key))
        self.others.scale(factor)
        self.seconds = (self.seconds + passed_ns / 1e9) * factor

    def _shrink(self) -> None:
        """At most `keep` keys stay; nobody's debit grows by more than what was given up."""
        if len(self.tallies) <= self._keep:
            return
        order = sorted(self.tallies.items(), key=lambda item: item[1].weight(), reverse=True)
        cut = order[self._keep][1].weight()
        for _, tally in order[self._keep :]:
            self.others.add(tally)
        self.tallies = dict(order[: self._keep])
        for tally in self.tallies.values():
            tally.debit += cut
