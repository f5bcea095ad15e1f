"""The three cases in which dispatch may go beyond a rate by Pulsar's documentation, measured here.

    bytes         there the size of an entry is known once it was read
    batches       there how many messages an entry holds is known once it was read
    dispatchers   there several see the same room, and charge it one after the other

`over` counts the calls that went while their limit was used up, or owed.
"""

from __future__ import annotations

from collections.abc import Callable

from .claims import per_period, whole, without_room
from .limit_kept import CALLERS, METHOD, stamp_call, stamping, stamps_in
from .pump import Pump
from .rows import Outcome, Row

PADDING = "x" * 1000
BYTES = 20_000  # a period, of calls of somewhat more than 1,000
BATCH = 10
BATCH_LIMIT = 25  # calls a period: no multiple of a batch
RACE_LIMIT = 400  # calls a period, for which four handlers race


def admitted(seconds: float) -> Outcome:
    """A row for each case."""
    rows = [_bytes(seconds), _batches(seconds), _dispatchers(seconds)]
    claim = "no call goes while its limit is used up, and every limit is used up"
    return Outcome(rows, claim, all(not row["over"] and row["used up"] == "yes" for row in rows))


def size_of(call: bytes) -> int:
    """The bytes of a call that a limit of bytes counts: its params."""
    return len(call.partition(b'"params":')[2].rpartition(b',"id"')[0])


def _bytes(seconds: float) -> Row:
    """In k periods less than k limits and one call; what is owed is paid back."""
    sizes = set[int]()

    def line(call: bytes) -> bytes:
        sizes.add(size_of(call))
        return b"{%s}\n" % call

    stamps = _stamps(seconds, f"bytes={BYTES}", line, PADDING)
    (size,) = sizes
    found = whole(per_period(stamps))
    enough = abs(sum(found) * size - len(found) * BYTES) < size
    return _row("bytes", BYTES, "bytes", stamps, without_room(stamps, BYTES, size), enough)


def _batches(seconds: float) -> Row:
    def batch(call: bytes) -> bytes:
        return b"[%s]\n" % b",".join([b"{%s}" % call] * BATCH)

    stamps = _stamps(seconds, f"calls={BATCH_LIMIT}", batch)
    enough = set(whole(per_period(stamps))) == {BATCH_LIMIT}
    over = without_room(stamps, BATCH_LIMIT)
    return _row("batches", BATCH_LIMIT, "calls", stamps, over, enough)


def _dispatchers(seconds: float) -> Row:
    stamps = _stamps(seconds, f"calls={RACE_LIMIT}", lambda call: b"{%s}\n" % call)
    enough = set(whole(per_period(stamps))) == {RACE_LIMIT}
    over = without_room(stamps, RACE_LIMIT)
    return _row("dispatchers", RACE_LIMIT, "calls", stamps, over, enough)


def _stamps(
    seconds: float, limit: str, line: Callable[[bytes], bytes], padding: str = ""
) -> list[int]:
    with stamping(f"method {METHOD}: {limit}") as (server, file):
        pump = Pump(server.address, line(stamp_call(file, 0.0, padding)), CALLERS)
        try:
            pump.run(seconds + 2)
        finally:
            pump.close()
        return stamps_in(file)


def _row(case: str, limit: int, unit: str, stamps: list[int], over: int, enough: bool) -> Row:
    return {
        "case": case,
        "limit": f"{limit} {unit}",
        "periods": len(whole(per_period(stamps))),
        "calls": len(stamps),
        "over": over,
        "used up": "yes" if enough else "no",
    }
