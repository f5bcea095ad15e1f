"""The arithmetic of one dispatch limit (Pulsar: `DispatchRateLimiter`, `RateLimiter`, PR #8611).

A limit has three states: NONE, a number of units per period, BLOCKED. Its counter is one word:

    word = period << 32 | used               period = floor(now / period length), aligned to 0

    renewal    used' = max(0, used - limit * periods passed)      what was overdrawn stays as debt
    gate       open iff used < limit                              some room, not enough room
    charge     used' = used + amount                              so one dispatch may overdraw
    opening    the start of period + floor(used / limit)

So 11 units of 10 leave room for 9, and 30 of 10 leave two periods empty. Nothing unused is carried.
There is no timer: whoever looks renews first, and whoever looks twice changes nothing.

Paced, the n-th unit of a period waits for its n-th part, and the totals of a period are the same:

    gate       open iff used * length <= elapsed * limit          elapsed = now - start of period
    opening    the start of period + ceil(used * length / limit)

A reservation that proves too large is given back, but only what no renewal has paid yet. `total` is
all that was ever charged, so `total - used` is what renewals paid, oldest first; a reservation that
ended at `position` (the total right after it) is unpaid above that.

Every argument and result is a plain integer, so that the same functions serve words in shared
memory; a limit is at most MOST_LIMIT, so that `used` has room for a dispatch beyond it. Times are
nanoseconds of one monotonic clock. Differs from Pulsar: periods are aligned to the clock instead of
the first use, and a changed limit neither restarts the period nor forgets a debt.
"""

from __future__ import annotations

NONE = -1
BLOCKED = 0
MOST_LIMIT = 2**31 - 1
NEVER_NS = 2**63 - 1
"""The opening of what is blocked."""
MOST_PERIOD_S = 366 * 86_400

_SHIFT = 32
_USED = 0xFFFF_FFFF


def pack(period: int, used: int) -> int:
    """The word of a counter; what exceeds 32 bits stays at their end."""
    return period << _SHIFT | min(used, _USED)


def period_of(word: int) -> int:
    """The number of the period that the counter was last renewed for."""
    return word >> _SHIFT


def used_of(word: int) -> int:
    """The units charged in that period, with the debt of those before."""
    return word & _USED


def renewed(word: int, period: int, limit: int) -> int:
    """The word in `period`; unchanged if that has begun already. Only a number pays."""
    passed = period - (word >> _SHIFT)
    if passed <= 0:
        return word
    left = (word & _USED) - passed * max(limit, 0)
    return period << _SHIFT | max(left, 0)


def renewed_relative(word: int, period: int, limit: int, next_limit: int) -> int:
    """As `renewed`, where the first renewal pays `limit` and puts `next_limit` in force."""
    first = (word >> _SHIFT) + 1
    if period < first:
        return word
    return renewed(renewed(word, first, limit), period, next_limit)


def relative_limit(configured: int, average: float) -> int:
    """The limit after a renewal, relative to the `average` arrivals per period; a number."""
    return min(configured + int(average), MOST_LIMIT)


def changed(
    word: int, now_ns: int, limit: int, period_ns: int, new_limit: int, new_period_ns: int
) -> int:
    """The word under a new limit: renewed with the old one, `used` kept while there is a limit."""
    new_period = now_ns // new_period_ns
    if limit == NONE or new_limit == NONE:
        return pack(new_period, 0)
    kept = renewed(word, now_ns // period_ns, limit)
    return pack(new_period, kept & _USED)


def charged(word: int, amount: int) -> int:
    """The word after a charge, for a renewed word and an amount of 0 or more."""
    return pack(word >> _SHIFT, (word & _USED) + amount)


def capped(word: int, limit: int, debt_periods: int) -> int:
    """The word with no more debt than `debt_periods` further periods pay."""
    if limit <= 0:
        return word
    return pack(word >> _SHIFT, min(word & _USED, limit * (1 + debt_periods)))


def refundable(word: int, total: int, position: int, excess: int) -> int:
    """How much of `excess` units reserved at `position` no renewal has paid; for a renewed word."""
    paid = total - (word & _USED)
    return min(excess, max(0, position - paid))


def refunded(word: int, amount: int) -> int:
    """The word with `amount` units given back."""
    return word >> _SHIFT << _SHIFT | max(0, (word & _USED) - amount)


def room(word: int, limit: int) -> int:
    """Units until the gate shuts, for a renewed word; MOST_LIMIT where there is no limit."""
    return MOST_LIMIT if limit == NONE else max(0, limit - (word & _USED))


def paced_room(word: int, limit: int, period_ns: int, now_ns: int) -> int:
    """The same for a paced limit: what is left of the part of the period that has begun."""
    if limit <= 0:
        return room(word, limit)
    begun = (now_ns - (word >> _SHIFT) * period_ns) * limit // period_ns + 1
    return max(0, min(limit, begun) - (word & _USED))


def opens_ns(word: int, limit: int, period_ns: int) -> int:
    """When the gate is open if nothing more is charged: a time, past if it is; NEVER_NS.

    A debt that 292 years would not pay is never paid: every opening fits in a word.
    """
    if limit <= 0:
        return 0 if limit == NONE else NEVER_NS
    return min(NEVER_NS, ((word >> _SHIFT) + (word & _USED) // limit) * period_ns)


def paced_opens_ns(word: int, limit: int, period_ns: int) -> int:
    """The same for a paced limit."""
    if limit <= 0:
        return opens_ns(word, limit, period_ns)
    return min(NEVER_NS, (word >> _SHIFT) * period_ns - (-(word & _USED) * period_ns // limit))


def after_renewal(word: int, limit: int) -> int:
    """The word in the next period: where that one has another limit, its opening counts on."""
    return renewed(word, (word >> _SHIFT) + 1, limit)
