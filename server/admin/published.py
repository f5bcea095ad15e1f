"""Who called what in the last second: the difference between two publications of each reader.

Figures in a publication decay with a known half-life, so what came between two of them is the later
one less what is left of the earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from ...scheduling.attribution import Attribution
from ...scheduling.top_list import HALF_LIFE_NS
from ...shm.shared import Shared
from ...shm.top_callers import Published
from .contributions import UNKNOWN_METHOD

WINDOW_NS = 1_000_000_000
STALE_NS = 3_000_000_000  # a reader that has not published for so long has no calls, or is dead
KEPT = 8
LEAST, LEAST_NS = 0.01, 1000.0  # what is less is the error of the subtraction

Key = tuple[str, str, int, str]  # user, context, row of the method, address
Figures = tuple[float, float]  # calls, busy_ns


class _OfReader:
    """The last publications of one reader, the oldest first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Mapping[Key, Figures]]] = deque(maxlen=KEPT)
        self.seconds = 0.0  # between the two that are compared

    @property
    def newest(self) -> Mapping[Key, Figures]:
        return self._kept[-1][1] if self._kept else {}

    def take(self, published: Published) -> None:
        if not self._kept or published.at_ns != self._kept[-1][0]:
            self._kept.append((published.at_ns, _figures(published)))
            while len(self._kept) > 2 and published.at_ns - self._kept[1][0] >= WINDOW_NS:
                self._kept.popleft()

    def gained(self, now_ns: int) -> dict[Key, Figures]:
        """Between the first and the last; of the only one, all that is in it."""
        self.seconds = 0.0
        if not self._kept or now_ns - self._kept[-1][0] > STALE_NS:
            return {}
        (then_ns, before), (at_ns, newest) = self._kept[0], self._kept[-1]
        if then_ns == at_ns:
            self.seconds = WINDOW_NS / 1e9
            return dict(newest)
        self.seconds = (at_ns - then_ns) / 1e9
        left = 0.5 ** ((at_ns - then_ns) / HALF_LIFE_NS)
        gains = {}
        for key, (calls, busy_ns) in newest.items():
            old_calls, old_busy_ns = before.get(key, (0.0, 0.0))
            gains[key] = calls - old_calls * left, busy_ns - old_busy_ns * left
        return gains


class Recently:
    """Of all readers of a port. `seconds`: how long a time the last `add_to` was about."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._readers = [_OfReader() for _ in range(shared.geometry.readers)]
        self.seconds = 1.0

    def add_to(self, found_of: Callable[[str], Attribution], now_ns: int) -> None:
        """What each kind of calls has taken in the last second; `found_of` says where a method's
        are added."""
        methods, spans = self._shared.names.methods, [0.0]
        for number, reader in enumerate(self._readers):
            published = self._shared.top_callers.read(number)
            if published is not None:
                reader.take(published)
            for (user, context, row, address), (calls, busy_ns) in reader.gained(now_ns).items():
                if calls > LEAST or busy_ns > LEAST_NS:
                    method = methods.name(row) if row < methods.count else UNKNOWN_METHOD
                    found_of(method).add(user, context, method, address, calls, busy_ns)
            spans.append(reader.seconds)
        self.seconds = max(spans)

    def address(self, user: str, job: str, method: str) -> str:
        """From where such calls come; "" if that is not known."""
        methods = self._shared.names.methods
        row = methods.find(method)
        for reader in self._readers:
            for name, context, its_row, address in reader.newest:
                if (name, context, its_row) == (user, job, row):
                    return address
        return ""


def _figures(published: Published) -> dict[Key, Figures]:
    rows, found = published.rows, dict[Key, Figures]()
    figures = published.figures.tolist()
    for at, method in enumerate(rows["method"].tolist()):
        user, context = published.text(at, "user"), published.text(at, "context")
        key = user, context, int(method), published.text(at, "address")
        calls, busy_ns = found.get(key, (0.0, 0.0))
        found[key] = calls + figures[at][0], busy_ns + figures[at][2]
    return found
