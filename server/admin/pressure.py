"""What the last second did to the groups of handlers of a port, and whose calls did it: what alarms
go by.

A sample is taken at each look. Figures are what counters and histograms have gained since the
oldest sample that is within WINDOW_NS, and what waits now. Who did it is told by what readers have
published since then (`shm.top_callers`, four times a second), and by the calls that handlers have
been running for so long that nobody has counted them yet. Nothing here takes a lock.

Refusals and latencies are counted for all groups together. So refused calls are those of the group
whose levels were found full most often, and latencies each group's, whose rule asks for waiting
calls as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...scheduling.alarms import PLENTY, Reading, Shortage, expected_wait_ns, is_saturated
from ...scheduling.attribution import Attribution, Suspect
from ...scheduling.latencies import Counts, Histogram
from ...shm import states
from ...shm.columns import Counter
from ...shm.layout import GROUP_SHIFT, MAX_LEVELS
from ..groups import groups_of, number_of
from .published import Recently
from .recent import refused_for_room
from .running import long_runners

if TYPE_CHECKING:
    from ..port import Port

WINDOW_NS = 1_000_000_000
SAMPLES = 16
OF_ALL = 0.99


@dataclass(frozen=True, slots=True)
class _Sample:
    """`waits` and `overflowed` are of each group, `latencies` of level 0."""

    at_ns: int
    calls: int
    refused: int
    waits: Sequence[Counts]
    overflowed: Sequence[int]
    latencies: Counts  # of level 0
    fingerprint: int  # the same: nothing was counted in between


@dataclass(frozen=True, slots=True)
class Moment:
    """How a group is, and who takes most of its handlers' time; `calls_per_s` are his. `group` is
    "" where there is only one."""

    group: str
    reading: Reading
    suspect: Suspect | None
    calls_per_s: float


class Pressure:
    """Of one port; `look` about four times a second."""

    def __init__(self, port: Port, now_ns: int) -> None:
        self._port, self._shared = port, port.shared
        self.groups = groups_of(port.settings)
        self._recently = Recently(self._shared)
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._samples.append(self._sample(now_ns))
        self._claimed_ns = [now_ns] * len(self.groups)  # when calls were last seen to go

    def has_traffic(self) -> bool:
        """Whether a call has come since the last look, or one waits."""
        came = self._shared.columns.total(Counter.CALLS) != self._samples[-1].calls
        return came or bool(self._shared.table.waiting())

    def look(self, now_ns: int, shortages: Sequence[Shortage] = ()) -> list[Moment]:
        """Each group now, beside how it was a second ago; `shortages` are those of the groups."""
        now = self._sample(now_ns)
        while len(self._samples) > 1 and now_ns - self._samples[1].at_ns >= WINDOW_NS:
            self._samples.popleft()
        then, before = self._samples[0], self._samples[-1]
        for number, waits in enumerate(now.waits):
            if (waits != before.waits[number]).any():
                self._claimed_ns[number] = now_ns
        self._samples.append(now)
        refusing, moments = self._refusing(then, now), []
        for number, who in enumerate(self._attributions(now_ns)):
            shortage = shortages[number] if shortages else PLENTY
            reading = self._reading(number, then, now, who, shortage)
            if number != refusing:
                reading = replace(reading, refused_per_s=0.0)
            moments.append(self._moment(number, reading, who.heaviest()))
        return moments

    def _moment(self, group: int, reading: Reading, suspect: Suspect | None) -> Moment:
        name = self.groups[group].name if len(self.groups) > 1 else ""
        passed_s = max(0.1, self._recently.seconds)
        return Moment(name, reading, suspect, suspect.calls / passed_s if suspect else 0.0)

    def _reading(
        self, group: int, then: _Sample, now: _Sample, who: Attribution, shortage: Shortage
    ) -> Reading:
        handlers, seconds = self._shared.working_of(group), max(1, now.at_ns - then.at_ns) / 1e9
        waiting = self._waiting(group)
        waits, latencies = now.waits[group] - then.waits[group], now.latencies - then.latencies
        claimed_per_s = int(waits.sum()) / seconds
        wait_ns = expected_wait_ns(waiting, claimed_per_s, now.at_ns - self._claimed_ns[group])
        if is_saturated(waiting, handlers):  # else those that a limit has held are among them
            wait_ns = max(wait_ns, _quantile(waits))
        suspect = who.heaviest()
        return Reading(
            waiting=waiting,
            handlers=handlers,
            wait_ns=wait_ns,
            refused_per_s=(now.refused - then.refused) / seconds,
            latency_ns=_quantile(latencies),
            share=suspect.share if suspect else 0.0,
            users=who.users,
            shortage=shortage,
        )

    def _refusing(self, then: _Sample, now: _Sample) -> int:
        """The group whose levels were found full most often."""
        if len(self.groups) == 1:
            return 0
        gained = [b - a for a, b in zip(then.overflowed, now.overflowed, strict=True)]
        return max(range(len(gained)), key=lambda group: (gained[group], self._waiting(group)))

    def _waiting(self, group: int) -> int:
        """Calls of a group that wait for a handler: not those that a limit holds, but those that
        handlers have claimed with others and have not begun."""
        table = self._shared.table
        return table.q[table.waiting_words[group]] + self._claimed_ahead(group)

    def _claimed_ahead(self, group: int) -> int:
        """Looked for in the slots only while a handler of the group is in a call."""
        shared = self._shared
        if all(shared.running_slot(handler) < 0 for handler in shared.geometry.handlers_of(group)):
            return 0
        word = shared.table.words[:, 0].copy()
        ring = word >> np.uint64(states.LEVEL_SHIFT) & np.uint64(states.LEVEL_MASK)
        runs = word & np.uint64(states.STATE_MASK) == np.uint64(states.RUNNING)
        claimed = int((runs & (ring >> np.uint64(GROUP_SHIFT) == np.uint64(group))).sum())
        return max(0, claimed - shared.working_of(group) - shared.express_of(group))

    def _attributions(self, now_ns: int) -> list[Attribution]:
        """Of each group."""
        found = [Attribution() for _ in self.groups]

        def found_of(method: str) -> Attribution:
            return found[number_of(self.groups, method)]

        self._recently.add_to(found_of, now_ns)
        for runner in long_runners(self._port, now_ns, WINDOW_NS):
            address = self._recently.address(runner.user, runner.job, runner.method)
            about = runner.user, runner.job, runner.method, address
            found_of(runner.method).add(*about, 0, runner.ran_ns)
        return found

    def _sample(self, now_ns: int) -> _Sample:
        shared, histograms = self._shared, self._shared.histograms
        fingerprint = shared.columns.fingerprint()
        if self._samples and self._samples[-1].fingerprint == fingerprint:
            return replace(self._samples[-1], at_ns=now_ns)
        numbers = range(shared.geometry.groups)
        handlers = [shared.geometry.handlers_of(number) for number in numbers]
        segment = shared.segment
        overflowed = segment.words(segment.layout.overflowed, shared.geometry.ring_numbers)
        return _Sample(
            now_ns,
            shared.columns.total(Counter.CALLS),
            refused_for_room(shared.columns),
            [histograms.wait(slice(h.start, h.stop)).total().counts for h in handlers],
            overflowed.reshape(-1, MAX_LEVELS).sum(axis=1).tolist(),
            histograms.latency().level(0).counts,
            fingerprint,
        )


def _quantile(gained: Counts) -> float:
    """Of times that were counted; 0 of none."""
    return Histogram(gained.astype(np.uint64), 0).quantile(OF_ALL) or 0.0
