"""A recorded case in the terms in which the shared memory can answer it.

an error                     that it is one: the server's errors are its own
an overflow error            that it is one: the server has one form of refusal, -32005
a dump                       a step `dump_<field>` for each of its fields, and `dump_raw`
a mean response time         rounded to 12 digits: here it is a mean of nanoseconds
overflow counters after a    a step `overflowed_after_blocked`
put that blocked
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from . import oracle
from .pure_schedulers import PureDecay
from .recorded import Case
from .shared_port import OVERFLOW, REFUSED

# Fields of a dump for which no word of the segment stands; left out on both sides.
LEFT_OUT = {
    "count_last_window": "the sweep counts no completed calls",
    "total_raw": "what was ever charged is known of each user, and not summed",
    "service_total_raw": "the same",
}
_DUMPS = ("dump", "scheduler_dump")


def in_shared_terms(case: Case) -> Case:
    """The case with its steps and what it expects of them reworded."""
    fields = dict(case.fields)
    if "expect_construct" in fields:
        fields["expect_construct"] = reworded(fields["expect_construct"])
    fields["steps"] = list(_steps(case))
    return Case(case.component, case.name, fields)


def reworded(recorded: Any) -> Any:
    """An answer whose error, if it is one, has no details."""
    if not isinstance(recorded, Mapping) or "error" not in recorded:
        return recorded
    overflow = recorded["error"].get("type") == "CallQueueOverflowException"
    return {**recorded, **(OVERFLOW if overflow else REFUSED)}


def _steps(case: Case) -> Iterator[Mapping[str, Any]]:
    followed = _Followed(case)
    for step in case.fields.get("steps", []):
        followed.follow(step)
        if step["op"] in _DUMPS:
            yield from _dump(step["expect"], followed.dropped)
            continue
        op = step["op"]
        if op == "overflowed" and followed.blocked:
            op = "overflowed_after_blocked"
        if "expect" in step:
            step = {**step, "expect": reworded(step["expect"])}
        yield {**step, "op": op}


def _dump(fields: Mapping[str, Any], dropped: set[str]) -> Iterator[Mapping[str, Any]]:
    """A step for each field. A user's raw cost is that since it was dropped, here that ever."""
    users = fields["users"]
    told = {
        **fields,
        "users": {name: costs["decayed"] for name, costs in users.items()},
        "raw": {name: costs["raw"] for name, costs in users.items() if name not in dropped},
    }
    for field, expected in told.items():
        if field == "avg_response":
            expected = [digits(mean) for mean in expected]
        if field not in LEFT_OUT:
            yield {"op": f"dump_{field}", "expect": expected}


def digits(mean: float) -> float:
    """A mean without the last digits of its double, which the unit has a part in."""
    return float(f"{mean:.12g}")


class _Followed:
    """Goes through a case: who was dropped, has a put blocked?

    What Hadoop's scheduler knows by then is asked of the pure class.
    """

    def __init__(self, case: Case) -> None:
        self._pure = PureDecay(case) if case.component == "decay_scheduler" else None
        self.dropped: set[str] = set()
        self.blocked = False

    def follow(self, step: Mapping[str, Any]) -> None:
        told = step.get("expect")
        self.blocked |= "blocked" in (told, told.get("result") if isinstance(told, dict) else None)
        if self._pure and step["op"] in ("complete", "decay", "set_static"):
            before = set(self._pure.scheduler.ledger)
            oracle.answer(partial(getattr(self._pure, step["op"]), step))
            self.dropped |= before - set(self._pure.scheduler.ledger)
