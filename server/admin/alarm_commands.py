"""The commands that end an overload by one user, as they are typed: each is valid as it stands.

limit     to a tenth of the calls that it makes when it is first named
cancel    what waits and runs of it
block     for when a limit is not enough
remove    afterwards
"""

from __future__ import annotations

import shlex

from ...scheduling.errors import BadValue
from ..rate_request import line_of_request
from .cancel import LONGEST_CHARS

LEAVES = 0.1
MOST_LIMIT = 1_000_000


def commands_for(
    user: str, job: str, method: str, calls_per_s: float, socket: str
) -> tuple[str, ...]:
    """Of a user whose name limits cannot have (it has spaces), only the one that cancels."""
    if not user:
        return ()
    calls = str(max(1, min(MOST_LIMIT, round(calls_per_s * LEAVES))))
    of_caller = ["--level", "caller", "--caller", user]
    cancel = ["faircall", "cancel", "--user", user]
    for flag, value in (("--context", job), ("--method", method)):
        if value and len(value) <= LONGEST_CHARS:
            cancel += [flag, value]
    lines = [cancel]
    if _can_be_limited(user):
        limit = ["faircall", "throttle", "set", *of_caller]
        lines.insert(0, [*limit, "--calls", calls, "--period", "1"])
        lines.append([*limit, "--calls", "blocked"])
        lines.append(["faircall", "throttle", "remove", *of_caller])
    return tuple(shlex.join([*words, "--to", socket]) for words in lines)


def _can_be_limited(user: str) -> bool:
    try:
        line_of_request({"level": "caller", "caller": user, "calls": 1})
    except BadValue:
        return False
    return True
