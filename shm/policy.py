"""What the call table needs to know of the queue's policy, in two blocks of which one is in force.

A change is written into the other block under the queue lock and takes effect with one store of
`policy_version`, whose lowest bit selects the block. Processes keep a decoded copy and compare the
version at every operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .layout import LANES, MAX_LEVELS, POLICY, SHARD, WORD, word_of
from .segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """`weights` and `capacities` (calls) have one entry per level, level 0 first.

    `lane_shares` are thousandths of the draws, of each lane (`draws`); one that is 0 is off: what
    would go there goes to level 0.
    """

    weights: tuple[int, ...] = (8, 4, 2, 1)
    capacities: tuple[int, ...] = (1024, 1024, 1024, 1024)
    in_turn: bool = True
    scan_from_cursor: bool = False
    claim_ahead_ns: int = 200_000
    max_principal: int = 1024  # calls that one principal may have waiting
    backoff: bool = True  # refuse what finds no room, instead of pausing its connection
    lane_shares: tuple[int, ...] = (0,) * LANES

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.capacities):
            raise ValueError(f"{len(self.weights)} weights for {len(self.capacities)} capacities")
        if not 1 <= len(self.weights) <= MAX_LEVELS - LANES:
            raise ValueError(f"levels must be 1 to {MAX_LEVELS - LANES}: {len(self.weights)}")
        if min(self.weights) < 1 or min(self.capacities) < 1:
            raise ValueError(f"weights and capacities must be positive: {self}")
        if self.max_principal < 1 or self.claim_ahead_ns < 0:
            raise ValueError(f"max_principal must be positive, claim_ahead_ns not negative: {self}")

        shares = self.lane_shares
        if len(shares) != LANES or min(shares) < 0 or max(shares) > 1000:
            raise ValueError(f"{LANES} lane shares of 0 to 1000: {shares}")

    @property
    def levels(self) -> int:
        return len(self.weights)

    @property
    def has_lanes(self) -> bool:
        """Whether any lane is on."""
        return any(self.lane_shares)


class PolicyBlocks:
    """Reads and writes the blocks; both only with the queue lock held."""

    def __init__(self, segment: Segment) -> None:
        self.version_word = segment.word(segment.layout.shard, SHARD, "policy_version")
        self._q = segment.q
        self._first = segment.layout.policy // WORD

    def read(self, version: int) -> QueuePolicy:
        """The policy that `version` selects."""
        get = self._q
        base = self._base(version)
        at = {name: base + word_of(POLICY, name) for name in POLICY.names or ()}
        levels = get[at["levels"]]
        return QueuePolicy(
            weights=tuple(get[at["weight"] : at["weight"] + levels]),
            capacities=tuple(get[at["capacity"] : at["capacity"] + levels]),
            in_turn=bool(get[at["in_turn"]]),
            scan_from_cursor=bool(get[at["scan_from_cursor"]]),
            claim_ahead_ns=get[at["claim_ahead_ns"]],
            max_principal=get[at["max_principal"]],
            backoff=bool(get[at["backoff"]]),
            lane_shares=tuple(get[at["lane_share"] : at["lane_share"] + LANES]),
        )

    def write(self, policy: QueuePolicy) -> None:
        """Put `policy` in force."""
        version = self._q[self.version_word] + 1
        self._put(version, "levels", [policy.levels])
        self._put(version, "in_turn", [policy.in_turn])
        self._put(version, "scan_from_cursor", [policy.scan_from_cursor])
        self._put(version, "claim_ahead_ns", [policy.claim_ahead_ns])
        self._put(version, "max_principal", [policy.max_principal])
        self._put(version, "backoff", [policy.backoff])
        self._put(version, "lane_share", policy.lane_shares)
        self._put(version, "weight", policy.weights)
        self._put(version, "capacity", policy.capacities)
        self._q[self.version_word] = version  # <- in force

    def _base(self, version: int) -> int:
        return self._first + (version & 1) * (POLICY.itemsize // WORD)

    def _put(self, version: int, field: str, values: Iterable[int]) -> None:
        at = self._base(version) + word_of(POLICY, field)
        for offset, value in enumerate(values):
            self._q[at + offset] = int(value)
