"""What the call table needs to know of the queue's policy, in two blocks of which one is in force.

A change is written into the other block under the queue lock and takes effect with one store of
`policy_version`, whose lowest bit selects the block. Processes keep a decoded copy and compare the
version at every operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .layout import GROUP_SHIFT, LANES, MAX_LEVELS, MOST_GROUPS, POLICY, SHARD, WORD, word_of
from .segment import Segment

WHOLE = 1000  # thousandths


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """`weights` and `capacities` (calls) have one entry per level, level 0 first.

    `lane_shares` are thousandths of the draws, of each lane (`draws`); one that is 0 is off: what
    would go there goes to level 0. `group_capacities` are those of further groups of handlers, each
    like `capacities`, which are the first group's, and those of a group without its own.
    """

    weights: tuple[int, ...] = (8, 4, 2, 1)
    capacities: tuple[int, ...] = (1024, 1024, 1024, 1024)
    in_turn: bool = True
    scan_from_cursor: bool = False
    claim_ahead_ns: int = 200_000
    max_principal: int = 1024  # calls that one principal may have waiting
    backoff: bool = True  # refuse what finds no room, instead of pausing its connection
    lane_shares: tuple[int, ...] = (0,) * LANES
    held_share: int = WHOLE  # thousandths of a capacity that calls held by limiters may take
    long_ns: int = 0  # expected time from which on a call is long (`seats`); 0: none is
    short_ns: int = 1_000_000  # expected time up to which a call is of the SHORT class (`express`)
    group_capacities: tuple[tuple[int, ...], ...] = ()
    levels: int = field(init=False, repr=False, compare=False)  # how many
    has_lanes: bool = field(init=False, repr=False, compare=False)  # any lane is on
    rooms: tuple[int, ...] = field(init=False, repr=False, compare=False)  # by ring number

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.capacities):
            raise ValueError(f"{len(self.weights)} weights for {len(self.capacities)} capacities")
        if not 1 <= len(self.weights) <= MAX_LEVELS - LANES:
            raise ValueError(f"levels must be 1 to {MAX_LEVELS - LANES}: {len(self.weights)}")
        if min(self.weights) < 1 or min(self.capacities) < 1:
            raise ValueError(f"weights and capacities must be positive: {self}")
        if self.max_principal < 1 or min(self._times()) < 0:
            raise ValueError(f"max_principal must be positive, times not negative: {self}")
        shares = self.lane_shares
        if len(shares) != LANES or min(shares) < 0 or max(shares) > 1000:
            raise ValueError(f"{LANES} lane shares of 0 to 1000: {shares}")
        if not 1 <= self.held_share <= WHOLE:
            raise ValueError(f"held_share must be 1 to {WHOLE}: {self.held_share}")
        if len(self.group_capacities) >= MOST_GROUPS:
            raise ValueError(f"groups must be at most {MOST_GROUPS}: {self.group_capacities}")
        for each in self.group_capacities:
            if len(each) != len(self.weights) or min(each) < 1:
                raise ValueError(f"{len(self.weights)} positive capacities for each group: {each}")
        object.__setattr__(self, "levels", len(self.weights))
        object.__setattr__(self, "has_lanes", any(shares))
        object.__setattr__(self, "rooms", self._rooms())

    def _times(self) -> tuple[int, ...]:
        return self.claim_ahead_ns, self.long_ns, self.short_ns

    def _rooms(self) -> tuple[int, ...]:
        """The capacity of each ring number; that of a lane, and of any other, is level 0's."""
        groups = [self.capacities, *self.group_capacities]
        groups += [self.capacities] * (MOST_GROUPS - len(groups))
        rooms: list[int] = []
        for each in groups:
            rooms += [*each, *[each[0]] * (MAX_LEVELS - len(each))]
        return tuple(rooms)

    def held_room(self, level: int) -> int:
        """Calls that limiters may hold in the ring `level`, a lane too; 0: there is no bound."""
        if self.held_share == WHOLE:
            return 0
        return max(1, self.rooms[level] * self.held_share // WHOLE)


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
        levels, others = get[at["levels"]], get[at["other_groups"]]
        firsts = range(at["other_capacity"], at["other_capacity"] + others * MAX_LEVELS, MAX_LEVELS)
        return QueuePolicy(
            weights=tuple(get[at["weight"] : at["weight"] + levels]),
            capacities=tuple(get[at["capacity"] : at["capacity"] + levels]),
            in_turn=bool(get[at["in_turn"]]),
            scan_from_cursor=bool(get[at["scan_from_cursor"]]),
            claim_ahead_ns=get[at["claim_ahead_ns"]],
            max_principal=get[at["max_principal"]],
            backoff=bool(get[at["backoff"]]),
            lane_shares=tuple(get[at["lane_share"] : at["lane_share"] + LANES]),
            held_share=get[at["held_share"]],
            long_ns=get[at["long_ns"]],
            short_ns=get[at["short_ns"]],
            group_capacities=tuple(tuple(get[first : first + levels]) for first in firsts),
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
        self._put(version, "held_share", [policy.held_share])
        self._put(version, "long_ns", [policy.long_ns])
        self._put(version, "short_ns", [policy.short_ns])
        self._put(version, "weight", policy.weights)
        self._put(version, "capacity", policy.capacities)
        self._put(version, "other_groups", [len(policy.group_capacities)])
        for number, each in enumerate(policy.group_capacities):
            self._put(version, "other_capacity", each, number << GROUP_SHIFT)
        self._q[self.version_word] = version  # <- in force

    def _base(self, version: int) -> int:
        return self._first + (version & 1) * (POLICY.itemsize // WORD)

    def _put(self, version: int, field: str, values: Iterable[int], behind: int = 0) -> None:
        at = self._base(version) + word_of(POLICY, field) + behind
        for offset, value in enumerate(values):
            self._q[at + offset] = int(value)
