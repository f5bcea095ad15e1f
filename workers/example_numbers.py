"""Prime factors of large integers: the arithmetic part of the example service."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

# Miller and Rabin's test with these bases is exact below 3.3e24 (Sorenson and Webster, 2015).
_BASES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
_STEPS_BETWEEN_PAUSES: Final = 1000


def prime_factors(number: int, pause: Callable[[], None]) -> list[int]:
    """In ascending order, repeated as often as they divide; `pause` is called every few ms."""
    factors = []
    for prime in _BASES:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
    pending = [number] if number > 1 else []
    while pending:
        part = pending.pop()
        if is_prime(part):
            factors.append(part)
        else:
            divisor = _divisor(part, pause)
            pending += [divisor, part // divisor]
    return sorted(factors)


def is_prime(number: int) -> bool:
    if number < 2 or any(number % base == 0 for base in _BASES):
        return number in _BASES
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    return all(_passes(number, base, twos) for base in _BASES)


def _passes(number: int, base: int, twos: int) -> bool:
    """Whether `base` finds no proof that `number` is composite; 2**twos divides number - 1."""
    power = pow(base, (number - 1) >> twos, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _divisor(number: int, pause: Callable[[], None]) -> int:
    """A proper divisor of a composite number, by Pollard's rho with Floyd's cycle finding."""
    for constant in range(1, number):
        slow = fast = 2
        divisor, steps = 1, 0
        while divisor == 1:
            slow = (slow * slow + constant) % number
            fast = (fast * fast + constant) % number
            fast = (fast * fast + constant) % number
            divisor = math.gcd(slow - fast, number)
            steps += 1
            if steps % _STEPS_BETWEEN_PAUSES == 0:
                pause()
        if divisor != number:
            return divisor
    raise ArithmeticError(f"no divisor of {number} found")
