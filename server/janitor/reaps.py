"""The supervisor's side of the janitor of one port: which deaths it has yet to answer for.

    order   "reap ROLE NUMBER"           answer   "reaped ROLE NUMBER {what became of its calls}"
    order   "refresh VERSION SETTINGS"   answer   "refreshed VERSION"

Orders are repeated until they are answered: after the janitor's own death all go to its successor,
which can do no harm, for all its work may be done twice. A janitor that leaves an order unanswered
is silent; each one that is killed for it is given twice the time of the one before, so that a
machine under heavy load ends with a slow janitor and not with a series of dead ones.

Of reloads only the last one counts: its order takes the place of one that was not answered yet. (A
successor is forked with the settings of that moment, and puts them in force before it is ready.)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

SILENCE_NS = 1_000_000_000
MOST_SILENCE_NS = 16 * SILENCE_NS
REFRESH_NS = 5 * SILENCE_NS  # for settings: calls may have to be moved from level to level
REAPED, REFRESHED = b"reaped ", b"refreshed "
REFRESH = "refresh"

Place = tuple[str, int]  # role and number of a child


class Reaps:
    """`waiting` maps the places of the dead to when their order was sent, 0 = not yet."""

    def __init__(self) -> None:
        self.waiting: dict[Place, int] = {}
        self._settings = b""
        self._inherited = 0  # version of the settings that the next janitor is forked with
        self._silence_ns = SILENCE_NS

    def add(self, place: Place) -> None:
        """That child died, and was waited for."""
        self.waiting[place] = 0

    def refresh(self, version: int, settings: bytes) -> None:
        """The janitor is to go by these settings from now on."""
        self.waiting = {place: ns for place, ns in self.waiting.items() if place[0] != REFRESH}
        self.waiting[REFRESH, version] = 0
        self._settings = settings

    def send(self, send: Callable[[bytes], bool], now_ns: int) -> None:
        """Give the janitor, which is ready, every order that it has not been given."""
        for place, sent_ns in self.waiting.items():
            if not sent_ns and send(self._order(place)):
                self.waiting[place] = now_ns

    def _order(self, place: Place) -> bytes:
        role, number = place
        if role == REFRESH:
            return f"{REFRESH} {number} ".encode() + self._settings
        return f"reap {role} {number}".encode()

    def answered(self, place: Place) -> bool:
        """That order was carried out; False if nobody waited for it."""
        self._silence_ns = SILENCE_NS
        return self.waiting.pop(place, None) is not None

    def inherited(self) -> int:
        """A successor is ready: the version of the settings that it put in force; 0 = no other."""
        version, self._inherited = self._inherited, 0
        return version

    def silent(self, now_ns: int) -> bool:
        """Whether the janitor has been given an order that it should have answered by now."""
        return any(
            sent_ns and now_ns - sent_ns > (REFRESH_NS if role == REFRESH else self._silence_ns)
            for (role, _), sent_ns in self.waiting.items()
        )

    def forgive(self, now_ns: int) -> None:
        """The supervisor itself was stopped for a while: count from now."""
        for place, sent_ns in self.waiting.items():
            self.waiting[place] = now_ns if sent_ns else 0

    def janitor_died(self, silent: bool) -> None:
        """Its successor gets all orders again, but for settings, which it is forked with; more
        time, if this one was killed as silent."""
        for place in [place for place in self.waiting if place[0] == REFRESH]:
            self._inherited = place[1]
            del self.waiting[place]
        self.waiting = dict.fromkeys(self.waiting, 0)
        if silent:
            self._silence_ns = min(2 * self._silence_ns, MOST_SILENCE_NS)


def refresh_of(message: bytes) -> tuple[int, bytes] | None:
    """Version and settings of a refresh order; None for any other order."""
    if not message.startswith(REFRESH.encode() + b" "):
        return None
    _, version, settings = message.split(b" ", 2)
    return int(version), settings


def order_of(message: bytes) -> Place:
    """The place of an order; ValueError if it is none."""
    verb, role, number = message.decode().split(" ")
    if verb != "reap":
        raise ValueError(f"not an order: {message!r}")
    return role, int(number)


def answer(place: Place, outcome: dict[str, int]) -> bytes:
    """What the janitor says when an order is carried out."""
    return REAPED + f"{place[0]} {place[1]} {json.dumps(outcome)}".encode()


def parse_answer(message: bytes) -> tuple[Place, dict[str, Any]]:
    """The place, and what became of its calls; ValueError if it is no answer."""
    role, number, outcome = message.removeprefix(REAPED).decode().split(" ", 2)
    return (role, int(number)), json.loads(outcome)
