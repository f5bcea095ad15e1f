"""The shared segment, word by word: the one place where its layout is declared.

  at 0    +---------------------------------+
          | HEADER                   4096 B |  who made it, geometry, phase; `magic` is stored last
          | LOCKS        64 B each          |  queue, names, pages, then one answer lock per reader
          | SHARD                    1 rec. |  sequence, counts, idle bits
          | GROUPS          per group       |  of handlers: WRR cursor, what waits, lane debts
          | LEVEL INDEX     per ring        |  level turns, what waits and is held there
          | POLICY                   2 rec. |  double-buffered; SHARD.policy_version & 1 is in force
          | PROCESS         per process     |  pid, beat, what it runs
          | RINGS  levels, lanes x 2 classes|  a bitmap of turns, then (head, tail) of each chain
          | ANSWERS         per reader      |  head, tail, then one word per slot of that reader
          | LIMITERS        per limiter     |  its limits, what is used; then heaps of held calls
          | SLOTS           per call        |  the truth: the rings, chains and counts are its index
          | IDENTITIES      per identity    |  name, level, cost; last turns, hash index
          | METHODS         per method      |  name, flags, expected time; then the hash index
          | COLUMNS         per process     |  single-writer counters, costs, figures of calls
          | LEVELS          per level       |  mean response time, and whether its calls back off
          | TOP CALLERS  2 blocks a reader  |  who calls what most of late; its version & 1 counts
          | HISTOGRAMS      per process     |  of times: per method, level, watched identity
          | RATES                2 blocks   |  text; SHARD.rates_version & 1 is in force
          | PAGE WORDS      per page        |  owner (slot, generation), next page; then free stacks
          | PAGES                           |  4 KiB pages, then 64 KiB pages
          +---------------------------------+

Every field is one native 64-bit word, so that a state changes by one aligned store. Raise VERSION
with every change here, even an unreleased one: who attaches to a segment of another version must
refuse it, not misread it.

Who may touch which words, and under which lock:

    | words                    | written by                     | read by  | under             |
    | HEADER                   | creator, supervisor            | all      | one store         |
    | SHARD, GROUPS, LEVEL     | readers, handlers, janitor     | the same | queue lock        |
    | INDEX, RINGS, LIMITERS   |                                |          |                   |
    | POLICY, RATES            | janitor, admin                 | all      | queue lock        |
    | PROCESS                  | that process                   | all      | one writer a word |
    | ANSWERS                  | handlers, that reader, janitor | the same | that answer lock  |
    | SLOT.state               | see `states`                   | all      | see `states`      |
    | SLOT, other words        | whom the state names           | the same | none              |
    | IDENTITY.hash, .word     | readers, janitor               | all      | names lock        |
    | IDENTITY.level, .looked  | janitor                        | all      | one store         |
    | IDENTITY.decayed         | janitor                        | all      | one store         |
    | IDENTITY.waiting         | readers, handlers, janitor     | all      | queue lock        |
    | METHOD                   | handlers at start, janitor     | all      | names lock        |
    | IDENTITY.watch, WATCHED  | janitor                        | all      | one store         |
    | COLUMNS, HISTOGRAMS      | that process                   | all      | one writer a word |
    | LEVEL                    | janitor                        | all      | one store         |
    | TOP CALLERS              | that reader                    | admin    | see `top_callers` |
    | PAGE WORDS               | who holds the slot             | the same | pages lock        |

A lock-free read of a word is safe because the word is whole: one aligned 8-byte load.
"""

from __future__ import annotations

import zlib
from dataclasses import astuple, dataclass

import numpy as np

from ..scheduling.latencies import BUCKETS

MAGIC = 0x4C4C_4143_5249_4146  # "FAIRCALL" in memory; 0 means: not ready yet
VERSION = 16

WORD = 8  # bytes
CACHE_LINE = 64  # bytes
SMALL_PAGE = 4096  # bytes
LARGE_PAGE = 65536  # bytes

MAX_LEVELS = 16  # priority levels, the lanes included
LANES = 2  # queues beside the levels, see `draws`; numbered from Geometry.levels on
GROUP_SHIFT = 4  # ring number = group << GROUP_SHIFT | level: MAX_LEVELS numbers for each group
MOST_GROUPS = 8  # of handlers, each with rings of its own
CLASSES = 2  # SHORT and LONG calls wait in rings of their own
IDLE_WORDS = 16  # one bit per handler: at most 1,024 handlers
NAME_BYTES = 128  # of an identity or a method, UTF-8
COUNTERS = 32  # single-writer words per process, named in `columns`
LIMITERS_PER_CALL = 8
MOST_TURNS = 1 << 16  # of a level
DIMENSIONS = 3  # of a limit: calls, bytes, handler microseconds
HOLD_REASONS = 6  # named in `limiters`
RATES_BYTES = 64 << 10  # of the text of all rates
TOP_CALLERS = 256  # that each reader publishes
CONTEXT_BYTES = 96  # of a caller context among them, UTF-8
ADDRESS_BYTES = 48  # of a client's address
REFUSALS = 5  # reasons, named in `top_callers`
METHOD_HISTOGRAMS = 64  # at most: the methods in later rows share the last one
MEASURES = 2  # of a handler: WAIT and SERVICE


def _record(*names: str, words: int) -> np.dtype[np.void]:
    """A record of `words` 64-bit words whose first ones have `names`; `name:n` is n words wide."""
    fields, formats, offsets, at = [], [], [], 0
    for name in names:
        field, _, count = name.partition(":")
        fields.append(field)
        formats.append("<u8" if not count else f"({count},)<u8")
        offsets.append(at * WORD)
        at += int(count or 1)
    if at > words:
        raise ValueError(f"record of {words} words holds {at}")
    spec = {"names": fields, "formats": formats, "offsets": offsets, "itemsize": words * WORD}
    return np.dtype(spec)  # type: ignore[call-overload,no-any-return]


def word_of(record: np.dtype[np.void], field: str) -> int:
    """The index of `field`'s (first) word within `record`."""
    assert record.fields is not None
    return record.fields[field][1] // WORD


HEADER = _record(
    "magic",
    "layout",  # VERSION and a checksum of geometry and ABI: another layout is refused
    "bytes",
    "boot",  # random: key of the name hashes
    "creator_pid",
    "created_ns",
    "phase",  # states.Phase of the server, stored by the supervisor
    "phase_ns",  # when it was entered
    "log_level",  # the least that is logged, as a number of `logging`; stored by the supervisor
    "generation",  # of the service's code that all handlers have; stored by the supervisor
    words=SMALL_PAGE // WORD,
)
SHARD = _record(
    "policy_version",
    "seq",  # of the next call: arrival order
    "held",  # calls HELD
    "next_open_ns",  # the earliest opening of a limiter that holds calls; 0 = none
    f"idle:{IDLE_WORDS}",  # bit h: handler h sleeps, or is about to
    "swept_ns",  # when the janitor's last sweep was due; 0 = none yet
    "strangers_level",  # of who has not been looked at by the janitor yet, which alone stores it
    "rates_version",  # of the rates in force; 0 = there are none
    "limiters_changed",  # see `plain_charges`: counts what charges by memory have to know
    "renewed_ns",  # the beginning of the latest period that a limiter was renewed for
    f"taken:{IDLE_WORDS}",  # bit h: handler h has claimed a LONG call, or is not there
    words=48,
)
GROUP = _record(
    "cursor",  # WRR: the level whose turn it is to be drawn
    "credit",  # and how many draws it has left
    "waiting",  # calls QUEUED
    "drawn",  # claims ever made
    f"lane_debt:{LANES}",  # thousandths of a draw that each lane has to pay back
    "gathering",  # see `joint`: method row + 1 << 32 | handler + 1 of who waits for more; 0 = none
    "gathering_room",  # calls that it has room for
    "served",  # see `seats`: row + 1 of the principal whose call was claimed last
    "served_since_ns",  # and since when nobody else's was
    "brief_ns",  # when a call was claimed last that was not long, + 1; 0 = none was
    "express_cursor",  # cursor, credit and debts of what express handlers draw, see `express`
    "express_credit",
    f"express_lane_debt:{LANES}",
    "express_ns",  # when an express handler claimed a call last; 0 = none did
    words=16,
)
POLICY = _record(
    "levels",
    "in_turn",  # 1: identities in turn; 0: strict arrival order within a level
    "scan_from_cursor",  # after an empty draw: 0 from the top (Hadoop 3), 1 from the cursor
    "claim_ahead_ns",
    "max_principal",  # most calls that one principal may have waiting
    f"weight:{MAX_LEVELS}",
    f"capacity:{MAX_LEVELS}",  # of the first group
    "backoff",  # 1: readers refuse what finds no room; 0: they read no more from its connection
    f"lane_share:{LANES}",  # of each lane, thousandths of the draws while others wait; 0: it is off
    "held_share",  # of each level's capacity that held calls may take, thousandths; 1000: no bound
    "other_groups",  # how many have capacities of their own
    f"other_capacity:{(MOST_GROUPS - 1) * MAX_LEVELS}",  # [group - 1][level]
    "long_ns",  # from where on a call is long, see `seats`; 0: none is
    "short_ns",  # up to where a call is of the SHORT class
    words=160,
)
PROCESS = _record(
    "pid",
    "incarnation",  # counts the processes that had this index
    "status",  # states.Status
    "beat_ns",
    "current",  # generation << 32 | slot + 1 of the call whose user code runs; 0 = none
    "current_deadline_ns",
    "started_ns",
    "sleeping",  # 0, or ns: a reader is about to wait, ring it for answers to calls of less age
    "connections",  # adopted by a reader
    "handed",  # sent to a reader by the acceptor (written by the acceptor)
    "quiet",  # a draining reader has nothing in flight
    "settle_column",  # see `settlement`: the word that is about to become `settle_total`; 0 = none
    "settle_total",
    "settle_slot",  # and the slot's word that is about to become `settle_cost`
    "settle_cost",
    "leaving",  # 1: a handler is to claim no more and end; then, that no process is to be here
    "serving",  # see `seats`: row + 1 of the principal whose long call a handler has claimed
    words=24,
)
ANSWER_RING = _record("head", "tail", words=8)
LIMITER = _record(
    "key",  # kind << 56 | process << 44 | which one, see `limiters`; 0 = the row is free
    "caller",  # hash of the caller's name; 0 = of all
    "flags",
    "period_ns",  # 0 = it is being changed
    f"limit:{DIMENSIONS}",  # in force, + 1; 0 = none, 1 = blocked
    f"next_limit:{DIMENSIONS}",  # in force from the next renewal on
    f"configured:{DIMENSIONS}",  # what a relative limit adds to the average arrivals
    f"used:{DIMENSIONS}",  # period number << 32 | used: one store renews and charges
    "running_limit",  # calls that may run at once; 0 = no cap
    "debt_periods",  # most that is carried over, + 1; 0 = no cap
    "changed_ns",  # when its limits were: what was reserved before is not given back
    "version",  # of the rates that its limits come from
    "looked_ns",  # when a reader last named it
    # the index
    "opens_ns",  # it lets the next call through from then on
    "running",  # calls that are to be settled
    "held",
    "opened",  # calls that it held, and that wait to be drawn again
    # figures
    f"events:{HOLD_REASONS}",
    "held_ns",  # that the calls which it let go had waited
    # the index, too
    "waiting",  # see `backlogs`: calls QUEUED and HELD of its method and caller
    "backlog",  # 1: these are, or were, too many for them to pass freely
    words=40,
)
SLOT = _record(
    "state",  # see `states`: the truth
    "seq",
    "turn",
    "next",  # slot + 1 in its chain; 0 = none
    "prev",
    "child",  # of a HELD call, whose chain is a heap; of one let go, the turn at which it was held
    "identity",  # generation << 32 | row: who is charged, whose level it has
    "principal",  # generation << 32 | row: who takes turns, whose waiting calls are bounded
    "call",  # method | class << 32 | flags << 40 | scheduled level << 48
    "limiters:3",  # LIMITERS_PER_CALL rows, see `slot_limiters`; 0 = none
    "held_by",  # limiter row + 1, of who holds it or has let it go
    "held_since_ns",
    "batch",  # generation << 32 | slot + 1 of the next of its batch; 0 = none
    "budget",  # see `budgets`: what was reserved when it was claimed
    "arrived_ns",
    "deadline_ns",
    "claimed_ns",
    "charged",  # so far, where a call is not charged 1 on arrival and that is all
    "reserved",  # expected time in ns, taken back when the call settles
    "request",  # length << 32 | first page + 1
    "answer",  # see `states.answer_word`; complete when its generation is the slot's
    "answer_page",  # first page + 1 | byte offset << 32
    "spent_ns",  # in user code, stored by the handler with the answer
    "queued_ns",  # when it was offered to the queue, where costs go by time
    words=26,
)
IDENTITY = _record(
    "hash",  # 0 = the row is free
    "word",  # generation << 32 | flags
    "level",
    "decayed",
    "raw",  # cost ever charged, as of the last sweep
    "seen",  # what the columns summed to at the last sweep
    "calls_seen",  # what the call columns summed to when the row got its name
    "refused_seen",  # and the columns of refused calls
    "waiting",  # calls of this principal QUEUED or HELD
    "used_ns",  # when a reader last looked it up
    "quarantined",  # 1: to be evicted at the next sweep
    "looked",  # 1: the janitor has found costs here, and `level` follows from them
    "watch",  # place + 1 of the histogram of its waits; 0 = it is not watched
    "name_bytes",
    f"name:{NAME_BYTES // WORD}",
    words=32,
)
METHOD = _record(
    "hash",
    "flags",
    "timeout_ns",  # 0 = the server's default
    "expected_ns",  # what its calls take, most of them: see `expected`; 0 = never run
    "mean_ns",
    "mean_cost",  # what a call is charged on arrival, where costs go by time
    "average",  # microseconds << 32 | answer bytes + 1, of limited calls; 0 = none has ended
    "since",  # the first generation of the service that has it
    "last",  # and the last one
    "name_bytes",
    f"name:{NAME_BYTES // WORD}",
    words=26,
)
METHOD_COLUMN = _record(  # per handler and method, written by the handler but for `died`
    "calls",
    "failed",
    "spent_ns",
    "max_ns",
    "cost",
    "squares",  # a double, of ns^2
    "died",  # the janitor's: runs that ended with their handler << 32 | the mark of the last
    "joint_runs",  # invocations that served calls together, each of which is counted in `calls`
    words=8,
)
ARRIVED_COLUMN = _record("calls", "bytes", words=2)  # per reader and method: of relative rates
LEVEL_COLUMN = _record("count", "response_ns", words=2)  # per handler and level
LEVEL = _record(
    "backs_off",  # 1: its calls are refused because of response times
    "mean_ns",  # a double: mean response time as of the last sweep
    "weight",  # a double: how many calls stand behind that mean
    "count",  # calls answered in the last sweep's window
    "seen_count",  # what the columns summed to at the last sweep
    "seen_ns",
    words=8,
)
TOP_VERSION = _record("version", words=8)
TOP_BLOCK = _record(
    "count",  # of callers, which follow
    "published_ns",
    "seconds",  # a double, as all figures here: decayed, see `scheduling.top_list`
    "calls",  # figures of all who are not listed
    "cost",
    "busy_ns",
    f"refused:{REFUSALS}",
    words=16,
)
TOP_CALLER = _record(
    "calls",
    "cost",
    "busy_ns",
    f"refused:{REFUSALS}",
    "identity",  # generation << 32 | row: who was charged
    "method",
    "user_bytes",
    "context_bytes",
    "address_bytes",
    f"user:{NAME_BYTES // WORD}",
    f"context:{CONTEXT_BYTES // WORD}",
    f"address:{ADDRESS_BYTES // WORD}",
    words=48,
)
HISTOGRAM = _record("sum_ns", f"counts:{BUCKETS}", words=264)
WATCHED = _record("identity", words=1)  # generation << 32 | row; 0 = the place is free
WATCHED_HISTOGRAM = _record(  # per handler and place
    "identity",  # whose it is, which may still be who had the place before; 0 = it is being cleared
    "sum_ns",
    f"counts:{BUCKETS}",
    words=265,
)
PAGE = _record("owner", "next", words=2)  # owner: generation << 32 | USED | kind << 24 | slot
PAGE_INDEX = _record("free", words=8)  # how many pages lie on the stack behind it

LOCKS_BEFORE_ANSWERS = 3  # queue, names, pages


def _lines(size: int) -> int:
    return -(-size // CACHE_LINE) * CACHE_LINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How large a segment is. `slots` are per reader (a power of two), the rest in all."""

    readers: int = 1
    handlers: int = 2
    slots: int = 4096
    levels: int = MAX_LEVELS - LANES  # at most this many can be configured on this segment
    turns: int = 1024
    identities: int = 4096
    methods: int = 256
    limiters: int = 1664  # rows for callers, and two per method
    watched: int = 32  # identities whose waits have a histogram
    small_pages: int = 5120
    large_pages: int = 512
    group_handlers: tuple[int, ...] = ()  # places of each group, in order; (): all are of one
    group_express: tuple[int, ...] = ()  # how many of them, the last ones, are of express handlers

    def __post_init__(self) -> None:
        for name in self.__slots__[:-2]:
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1: {name}={value}")
        for name in ("slots", "turns"):
            if (value := getattr(self, name)) & (value - 1):
                raise ValueError(f"{name} must be a power of two: {name}={value}")
        limits = {
            "levels": MAX_LEVELS - LANES,
            "handlers": IDLE_WORDS * 64,
            "turns": MOST_TURNS,
            "limiters": 1 << 16,
        }
        for name, most in limits.items():
            if (value := getattr(self, name)) > most:
                raise ValueError(f"{name} must be at most {most}: {name}={value}")
        if len(self.group_handlers) > MOST_GROUPS:
            raise ValueError(f"groups must be at most {MOST_GROUPS}: {len(self.group_handlers)}")
        if self.group_handlers and min(self.group_handlers) < 1:
            raise ValueError(f"each group needs a handler: {self.group_handlers}")
        if self.group_handlers and sum(self.group_handlers) != self.handlers:
            raise ValueError(f"handlers={self.handlers}, but by groups {self.group_handlers}")
        if self.group_express and (
            len(self.group_express) != self.groups
            or any(not self.ordinary_of(group) for group in range(self.groups))
        ):
            raise ValueError(f"each group needs an ordinary handler: {self.group_express}")
        if self.calls >= 1 << 24:
            raise ValueError(f"readers x slots must be under 2^24: {self.calls}")

    @property
    def calls(self) -> int:
        """Slots of all readers together."""
        return self.readers * self.slots

    @property
    def processes(self) -> int:
        """Readers first, then handlers, then acceptor, janitor and admin."""
        return self.readers + self.handlers + 3

    @property
    def groups(self) -> int:
        """Of handlers, each with levels and lanes of its own."""
        return len(self.group_handlers) or 1

    def handlers_of(self, group: int) -> range:
        """The numbers of the handlers of `group`, its empty places too."""
        counts = self.group_handlers or (self.handlers,)
        first = sum(counts[:group])
        return range(first, first + counts[group])

    def ordinary_of(self, group: int) -> range:
        """Those of `group` that claim calls of any class, its empty places too."""
        places = self.handlers_of(group)
        return range(places.start, places.stop - self._express(group))

    def express_of(self, group: int) -> range:
        """Those of `group` that claim SHORT calls only, its empty places too."""
        places = self.handlers_of(group)
        return range(places.stop - self._express(group), places.stop)

    def _express(self, group: int) -> int:
        return self.group_express[group] if self.group_express else 0

    @property
    def has_express(self) -> bool:
        """Whether any group has express handlers."""
        return any(self.group_express)

    def is_express(self, handler: int) -> bool:
        """Whether that place is one of an express handler."""
        return handler in self.express_of(self.group_of(handler))

    def group_of(self, handler: int) -> int:
        """The group of a handler's number."""
        return next(g for g in range(self.groups) if handler in self.handlers_of(g))

    @property
    def rings(self) -> int:
        """Places to wait: of each group levels, then lanes. Those of the last are the last ones."""
        return self.ring_numbers - MAX_LEVELS + self.levels + LANES

    @property
    def ring_numbers(self) -> int:
        """Of all groups: MAX_LEVELS each, whether it has so many or not."""
        return self.groups << GROUP_SHIFT

    @property
    def method_histograms(self) -> int:
        """Methods that have a histogram; the last one is that of all others, if there are more."""
        return min(self.methods, METHOD_HISTOGRAMS)

    @property
    def histograms(self) -> int:
        """Of one process and one measure: a row per method, then one per level."""
        return self.method_histograms + MAX_LEVELS

    @property
    def buckets(self) -> int:
        """Of each name index: a power of two, at least twice the names."""
        return 1 << (2 * max(self.identities, self.methods) - 1).bit_length()

    @property
    def bitmap_words(self) -> int:
        return max(1, self.turns // 64)

    @property
    def ring_words(self) -> int:
        """Of one ring: its bitmap, then head and tail of each turn."""
        return self.bitmap_words + 2 * self.turns


class Layout:
    """Where each section of a segment of `geometry` starts, in bytes, and how long it is in all."""

    def __init__(self, geometry: Geometry, abi: str) -> None:
        self.geometry = g = geometry
        self._at = 0
        self.header = self._take(HEADER.itemsize)
        self.locks = self._take((LOCKS_BEFORE_ANSWERS + g.readers) * CACHE_LINE)
        self.shard = self._take(SHARD.itemsize)
        self.groups = self._take(g.groups * GROUP.itemsize)
        self.level_turns = self._take(g.ring_numbers * WORD)  # that it is at; only grows
        self.arrival_turns = self._take(g.ring_numbers * WORD)  # by arrival: none comes before
        self.short_leads = self._take(g.ring_numbers * WORD)  # see `rings`; 0 without express
        self.level_waiting = self._take(g.ring_numbers * CLASSES * WORD)  # [level][class]
        self.level_held = self._take(g.ring_numbers * WORD)
        # Calls QUEUED that a limiter held before and has let go; those that went to a lower level.
        self.level_opened = self._take(g.ring_numbers * WORD)
        self.overflowed = self._take(g.ring_numbers * WORD)
        self.policy = self._take(2 * POLICY.itemsize)
        self.processes = self._take(g.processes * PROCESS.itemsize)
        self.rings = self._take(g.rings * CLASSES * g.ring_words * WORD)
        self.answers = self._take(g.readers * (ANSWER_RING.itemsize + g.slots * WORD))
        self.limiters = self._take(g.limiters * LIMITER.itemsize)
        # Of the calls that each limiter holds, per level: slot + 1 of the first.
        self.limiter_roots = self._take(g.limiters * g.ring_numbers * WORD)
        self.slots = self._take(g.calls * SLOT.itemsize)
        self.identities = self._take(g.identities * IDENTITY.itemsize)
        self.last_turns = self._take(g.identities * g.ring_numbers * WORD)
        # The same of SHORT calls, where there are express handlers.
        self.last_short = self._take((g.identities * g.ring_numbers if g.has_express else 1) * WORD)
        # Of its calls that wait, those of each group; not used where there is but one.
        self.group_waiting = self._take((g.identities * g.groups if g.groups > 1 else 1) * WORD)
        self.identity_index = self._take(g.buckets * WORD)
        self.methods = self._take(g.methods * METHOD.itemsize)
        self.method_index = self._take(g.buckets * WORD)
        self.counters = self._take(g.processes * COUNTERS * WORD)
        self.costs = self._take(g.processes * g.identities * WORD)
        self.calls = self._take(g.processes * g.identities * WORD)
        self.refused = self._take(g.readers * g.identities * WORD)
        self.method_columns = self._take(g.handlers * g.methods * METHOD_COLUMN.itemsize)
        self.arrived_columns = self._take(g.readers * g.methods * ARRIVED_COLUMN.itemsize)
        self.level_columns = self._take(g.handlers * MAX_LEVELS * LEVEL_COLUMN.itemsize)
        self.level_words = self._take(MAX_LEVELS * LEVEL.itemsize)
        top_block = TOP_BLOCK.itemsize + TOP_CALLERS * TOP_CALLER.itemsize
        self.top_callers = self._take(g.readers * (TOP_VERSION.itemsize + 2 * top_block))
        rows = g.readers + MEASURES * g.handlers
        self.histograms = self._take(rows * g.histograms * HISTOGRAM.itemsize)
        self.watched = self._take(g.watched * WATCHED.itemsize)
        self.watched_histograms = self._take(g.handlers * g.watched * WATCHED_HISTOGRAM.itemsize)
        self.rates = self._take(2 * (WORD + RATES_BYTES))
        self.small_words = self._take(g.small_pages * PAGE.itemsize)
        self.large_words = self._take(g.large_pages * PAGE.itemsize)
        self.small_stack = self._take(PAGE_INDEX.itemsize + g.small_pages * WORD)
        self.large_stack = self._take(PAGE_INDEX.itemsize + g.large_pages * WORD)
        self._at = -(-self._at // SMALL_PAGE) * SMALL_PAGE
        self.small_pages = self._take(g.small_pages * SMALL_PAGE)
        self.large_pages = self._take(g.large_pages * LARGE_PAGE)
        self.total_bytes = -(-self._at // SMALL_PAGE) * SMALL_PAGE
        shape = repr((astuple(g), abi, self.total_bytes)).encode()
        self.identity = VERSION << 32 | zlib.crc32(shape)

    def _take(self, size: int) -> int:
        start = self._at
        self._at = start + _lines(size)
        return start
