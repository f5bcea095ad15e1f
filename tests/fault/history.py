"""What clients saw and what ran, held against the promises of the server.

    I1  an id is answered at most once on its connection
    I2  an id that is not answered: the connection was closed, or the client left it
    I3  nothing is answered that was not asked there, and an answer carries what was asked for
    I4  a call runs at most once; one that is idempotent at most MAX_ATTEMPTS times
    I5  what was answered with a result, or with what the function raised, ran; what was refused
        for want of room did not

"Told" is defined by the client's history alone, "ran" by the ledger alone, which a function writes
before it does anything. I1 and I2 together are: answered exactly once, or closed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

MAX_ATTEMPTS = 3
RESULT = "result"
OUTCOMES = {-32000: "raised", -32005: "busy", -32050: "expired", -32053: "died"}
RAN, REFUSED = (RESULT, "raised"), ("busy",)


@dataclass(slots=True)
class Connection:
    """What one client saw on one connection. Keys of calls are their ids, and params.

    `asked` and `noted` (the notifications) map keys to whether the call is idempotent; an answer is
    [id, outcome, whether the result was the right one]. `closed`: by the server; `left`: by the
    client, with calls in flight; `hung`: nothing came any more, and it was not closed either.
    """

    asked: dict[str, bool] = field(default_factory=dict)
    noted: dict[str, bool] = field(default_factory=dict)
    answers: list[tuple[str | None, str, bool]] = field(default_factory=list)
    closed: bool = False
    left: bool = False
    hung: bool = False

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def read(paths: Iterable[Path]) -> Iterator[Connection]:
    """The connections of the files that clients have written."""
    for path in paths:
        for line in path.read_text().splitlines():
            yield Connection(**json.loads(line))


def violations(connections: Iterable[Connection], runs: Counter[str]) -> Iterator[str]:
    """One sentence for each broken promise; `runs` is how often each key stands in the ledger."""
    for connection in connections:
        yield from _told(connection)
        yield from _ran(connection, runs)


def _told(connection: Connection) -> Iterator[str]:
    times = Counter(id for id, _, _ in connection.answers)
    for id, count in times.items():
        if count > 1:
            yield f"I1: {id} was answered {count} times"
        if id not in connection.asked:
            yield f"I3: {id} was answered, but not asked on this connection"
    unanswered = connection.asked.keys() - times.keys()
    if unanswered and (connection.hung or not (connection.closed or connection.left)):
        yield f"I2: not answered, and not closed: {sorted(unanswered)[:5]}"
    for id, outcome, right in connection.answers:
        if outcome == RESULT and not right:
            yield f"I3: {id} was answered with another result than its own"
        if outcome not in (RESULT, *OUTCOMES.values()):
            yield f"I3: {id} was answered with {outcome}"


def _ran(connection: Connection, runs: Counter[str]) -> Iterator[str]:
    for key, idempotent in (connection.asked | connection.noted).items():
        if runs[key] > (MAX_ATTEMPTS if idempotent else 1):
            yield f"I4: {key} ran {runs[key]} times, idempotent: {idempotent}"
    for id, outcome, _ in connection.answers:
        if outcome in RAN and id in connection.asked and not runs[id]:
            yield f"I5: {id} was answered with {outcome}, but did not run"
        if outcome in REFUSED and id in connection.asked and runs[id]:
            yield f"I5: {id} was refused as {outcome}, but ran"


def summary(connections: Iterable[Connection], runs: Counter[str]) -> Counter[str]:
    """How many of what there were: a run that met nothing proves nothing."""
    counts: Counter[str] = Counter()
    for connection in connections:
        counts["connections"] += 1
        counts["closed"] += connection.closed
        counts["left"] += connection.left
        counts["asked"] += len(connection.asked)
        counts["noted"] += len(connection.noted)
        counts.update(outcome for _, outcome, _ in connection.answers)
        counts["unanswered"] += len(connection.asked) - len(connection.answers)
    counts["rerun"] = sum(count > 1 for count in runs.values())
    return counts
