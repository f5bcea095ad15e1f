"""Functions that serve many calls at once: what they get, what their callers get, and who is left
out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import faircall
from faircall.scheduling.cost import CostRules
from faircall.server.admin.work import methods
from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.expected import adjusted
from faircall.shm.states import Phase, Status
from faircall.workers import openrpc
from faircall.workers.context import Call, current_call, running
from faircall.workers.errors import RpcError, ServiceError
from faircall.workers.handler import HandlerLimits
from faircall.workers.interceptors import Interception
from faircall.workers.invoke import invoke
from faircall.workers.service import Service

from .handler_desk import MS, Desk

PROCESSING = CostRules("WeightedTimeCostProvider", (0, 0, 0, 1, 0, 0, 0, 0, 0))


class Batches:
    """A service that tells with what it was called."""

    def __init__(self, within_ms: float = 0) -> None:
        self.service = service = Service()
        self.seen: list[list[int]] = []
        self.users: list[list[str]] = []
        self.desk: Desk

        @service.method(batch=4, within_ms=within_ms, idempotent=True)
        def double(x: list[int], add: list[int] = 0) -> list[Any]:  # type: ignore[assignment]
            self.seen.append(x)
            self.users.append([call.user for call in current_call().calls])
            self.desk.now_ns += 12 * MS
            return [_doubled(a) + b if a >= 0 else _doubled(a) for a, b in zip(x, add, strict=True)]

        @service.method(batch=4)
        def too_few(x: list[int]) -> list[int]:
            return x[1:]

        @service.method(batch=4)
        def array(x: Sequence[float]) -> Any:
            return np.asarray(x) * 2

        @service.method
        def plain(x: int) -> int:
            self.seen.append([x])
            return x


def _doubled(x: int) -> Any:
    if x == -1:
        return RpcError(7, "seven")
    return ValueError("negative") if x < 0 else 2 * x


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[Batches]:
    batches = Batches(getattr(request, "param", 0))
    batches.desk = Desk(batches.service, HandlerLimits(costs=PROCESSING))
    yield batches
    batches.desk.close()


@pytest.fixture
def desk(made: Batches) -> Desk:
    return made.desk


def put(desk: Desk, *values: object, method: str = "double", **kind: Any) -> list[int]:
    return [desk.put(method, json.dumps(value).encode(), **kind) for value in values]


def test_waiting_calls_are_one_invocation(made: Batches, desk: Desk) -> None:
    slots = put(desk, [1], {"x": 2}, [3, 5], {"add": 7, "x": 4}, [5])
    assert desk.work() == 4
    assert made.seen == [[1, 2, 3, 4]]
    bodies = [b"2", b"4", b"11", b"15"]
    assert desk.collect() == {
        slot: (Status.RESULT, body) for slot, body in zip(slots, bodies, strict=False)
    }
    desk.work()
    assert made.seen[1:] == [[5]]


def test_many_are_claimed_a_few_at_a_time_and_run_at_once(
    made: Batches, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircall.shm.joint.AT_ONCE", 1)
    put(desk, [1], [2], [3], [4], [5])
    desk.work()
    assert made.seen == [[1, 2, 3, 4]]


def test_an_exception_in_the_list_answers_one_call(desk: Desk) -> None:
    one, other, third = put(desk, [1], [-1], [-2])
    desk.work()
    answers = desk.collect()
    assert answers[one] == (Status.RESULT, b"2")
    assert json.loads(answers[other][1])["message"] == "seven"
    error = json.loads(answers[third][1])
    assert (error["code"], error["message"]) == (-32000, "ValueError: negative")


def test_what_does_not_fit_is_answered_alone(made: Batches, desk: Desk) -> None:
    slots = put(desk, [1], ["no"], [2])
    desk.work()
    assert made.seen == [[1, 2]]
    answers = desk.collect()
    assert [answers[slot][0] for slot in slots] == [Status.RESULT, Status.ERROR, Status.RESULT]
    assert json.loads(answers[slots[1]][1])["data"]["parameter"] == "x"


def test_a_wrong_number_of_results_answers_all(desk: Desk) -> None:
    slots = put(desk, [1], [2], method="too_few")
    desk.work()
    answers = desk.collect()
    for error in (json.loads(answers[slot][1]) for slot in slots):
        assert error["code"] == -32000
        assert "2 calls at once need 2 results, not 1" in error["message"]


def test_results_may_be_an_array(desk: Desk) -> None:
    slots = put(desk, [1], [2.5], method="array")
    desk.work()
    assert desk.collect() == {slots[0]: (Status.RESULT, b"2.0"), slots[1]: (Status.RESULT, b"5.0")}


def test_each_call_has_its_part_of_the_time(desk: Desk) -> None:
    slots = put(desk, [1], [2], [3])
    desk.expect("double", 100 * MS)
    desk.work()
    assert [desk.get(slot, "spent_ns") for slot in slots] == [4 * MS] * 3
    assert int(desk.shared.columns.cost_totals()[desk.user]) == 12 * MS
    assert desk.shared.columns.total(Counter.RUN) == 3
    (figures,) = [row for row in methods(desk.shared, "MILLISECONDS") if row["calls"]]
    assert (figures["mean_ms"], figures["calls_per_run"]) == (4.0, 3.0)
    assert desk.shared.columns.total(Counter.BUSY_NS) == 12 * MS
    expected = 100 * MS
    for _ in range(3):
        expected = adjusted(expected, [4 * MS])
    assert desk.expected_ns("double") == expected


def test_who_gave_up_or_is_too_late_is_left_out(made: Batches, desk: Desk) -> None:
    (late,) = put(desk, [1], timeout_ms=1)
    gone, stays = put(desk, [2], [3])
    desk.now_ns += 2 * MS
    claim = desk.table.claim

    def claim_and_lose(*args: Any) -> int:
        count = claim(*args)
        desk.withdraw(gone)
        return count

    desk.table.claim = claim_and_lose  # type: ignore[assignment]
    assert desk.work() == 3
    assert made.seen == [[3]]
    answers = desk.collect()
    assert answers[late][0] == answers[gone][0] == Status.EXPIRED
    assert answers[stays] == (Status.RESULT, b"6")
    assert desk.shared.columns.total(Counter.LATE) == 2


def test_the_function_sees_whose_calls_they_are(made: Batches, desk: Desk) -> None:
    put(desk, [1])
    desk.user = desk.shared.names.identity("bert", 0)
    put(desk, [2])
    desk.work()
    assert made.users == [["anna", "bert"]]


def test_hooks_see_each_call(made: Batches, desk: Desk) -> None:
    told: list[tuple[dict[str, Any], Any, str | None]] = []

    @made.service.before
    def refuse(seen: Interception) -> None:
        if seen.params["x"] == 2:
            raise RpcError(5, "not this one")

    @made.service.after
    def note(seen: Interception) -> None:
        told.append((seen.params, seen.result, str(seen.error) if seen.error else None))

    slots = put(desk, [1], [2], [-2])
    desk.work()
    assert made.seen == [[1, -2]]
    assert json.loads(desk.collect()[slots[1]][1])["code"] == 5
    assert told == [
        ({"x": 2, "add": 0}, None, "not this one (5)"),
        ({"x": 1, "add": 0}, 2, None),
        ({"x": -2, "add": 0}, None, "negative"),
    ]


def test_what_one_call_gives_and_gets_is_described(made: Batches) -> None:
    described = {method["name"]: method for method in openrpc.document(made.service)["methods"]}
    params = described["double"]["params"]
    assert [each["schema"]["type"] for each in params] == ["integer", "integer"]
    assert described["too_few"]["result"]["schema"] == {"type": "integer"}


def test_a_message_that_a_handler_decodes_calls_the_function_with_one(made: Batches) -> None:
    made.desk.now_ns = 0
    with running(Call(user="anna")):
        answer = invoke(made.service, "double", b"[4,1]")
    assert made.users == [["anna"]]
    assert (answer.ok, answer.body, made.seen) == (True, b"9", [[4]])


# -- waiting for more ------------------------------------------------------------------------------


class Poll:
    """In place of a handler's `poll`: what happens while it waits, call by call."""

    def __init__(self, desk: Desk, *deeds: Any) -> None:
        self.deeds, self.waits, self.desk = list(deeds), [], desk  # type: ignore[var-annotated]

    def poll(self, ms: int) -> list[int]:
        self.waits.append(ms)
        deed = self.deeds.pop(0) if self.deeds else None
        rung = bool(deed and deed())
        self.desk.now_ns += 0 if rung else ms * MS
        return [1] if rung else []


def waits(desk: Desk, *deeds: Any) -> Poll:
    desk.handlers[0]._joint_runs._poll = poll = Poll(desk, *deeds)  # type: ignore[assignment]
    return poll


@pytest.mark.parametrize("made", [8], indirect=True)
def test_a_handler_waits_until_there_are_enough(made: Batches, desk: Desk) -> None:
    desk.work(1)  # it has nothing to do and sleeps

    def more() -> bool:
        put(desk, [2], [3], [4])
        return True

    poll = waits(desk, more)
    put(desk, [1])
    desk.work()
    assert (made.seen, poll.waits) == ([[1, 2, 3, 4]], [8])


@pytest.mark.parametrize("made", [8], indirect=True)
def test_it_waits_no_longer_than_it_is_told(made: Batches, desk: Desk) -> None:
    poll = waits(desk, lambda: put(desk, [2]) and False)
    put(desk, [1])
    began_ns = desk.now_ns
    desk.work()
    assert (made.seen, poll.waits) == ([[1, 2]], [8])
    assert desk.now_ns - began_ns == (8 + 12) * MS


@pytest.mark.parametrize("made", [8], indirect=True)
def test_it_waits_for_a_quarter_of_the_time_that_a_call_has_left(desk: Desk) -> None:
    poll = waits(desk)
    put(desk, [1], timeout_ms=8)
    desk.work()
    assert poll.waits == [2]


@pytest.mark.parametrize("made", [8], indirect=True)
def test_it_does_not_wait_while_anything_else_does(made: Batches, desk: Desk) -> None:
    poll = waits(desk)
    put(desk, [1])
    put(desk, [2], method="plain")
    desk.work()
    assert poll.waits == []
    assert made.seen == [[1]]


@pytest.mark.parametrize("made", [8], indirect=True)
def test_a_call_for_which_nobody_is_idle_ends_the_wait(made: Batches, desk: Desk) -> None:
    poll = waits(desk, lambda: put(desk, [9], method="plain") and True)
    put(desk, [1])
    desk.work()
    assert (made.seen, poll.waits) == ([[1]], [8])


@pytest.mark.parametrize("made", [8], indirect=True)
def test_a_stopping_server_waits_for_nothing(made: Batches, desk: Desk) -> None:
    def draining() -> bool:
        desk.shared.phase.set(Phase.DRAINING, desk.now_ns)
        return True

    poll = waits(desk, draining)
    put(desk, [1])
    desk.work()
    assert (made.seen, poll.waits) == ([[1]], [8])


@pytest.mark.parametrize("made", [8], indirect=True)
def test_while_one_waits_calls_that_it_has_room_for_wake_nobody_else(desk: Desk) -> None:
    verdicts: list[int] = []

    def more() -> bool:
        slots = []
        for value in range(4):
            slots += put(desk, [value])
            verdicts.append(desk.woken)
        return True

    desk.work(1)
    waits(desk, more)
    put(desk, [1])
    desk.q[desk.table.idle_word] = 2  # the other one sleeps
    desk.work()
    assert verdicts == [0, 0, 1, 2]  # the third fills the batch, the fourth is for the other


# -- deaths ----------------------------------------------------------------------------------------


def test_all_that_began_are_blamed_and_run_again_alone(made: Batches, desk: Desk) -> None:
    slots = put(desk, [1], [2])
    done = desk.handlers[0].runner

    def dies(_: object) -> None:
        raise SystemExit(3)

    done.run_together = dies  # type: ignore[method-assign,assignment]
    with pytest.raises(SystemExit):
        desk.work()
    assert desk.reap() == {"answered": [], "died": [], "requeued": slots}
    assert [desk.get(slot, "state") >> states.ATTEMPT_SHIFT & 15 for slot in slots] == [1, 1]
    desk.work()
    desk.work()
    assert made.seen == [[1], [2]]
    assert {status for status, _ in desk.collect().values()} == {Status.RESULT}


# -- declarations ----------------------------------------------------------------------------------


def declared(**options: Any) -> Any:
    return Service().method(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch": -1}, "batch=-1 is no number up to 1024"),
        ({"batch": True}, "batch=True is no number"),
        ({"batch": 2, "within_ms": 2000}, "within_ms=2000 is not a wait of up to 1000 ms"),
        ({"within_ms": 2}, "within_ms=2 is not"),
    ],
)
def test_numbers_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ServiceError, match=re.escape(text)):
        declared(**options)(lambda x: x)


def test_parameters_must_be_lists() -> None:
    def scalar(x: int) -> list[int]: ...  # type: ignore[empty-body]
    def nothing() -> list[int]: ...  # type: ignore[empty-body]
    def named(*, x: list[int]) -> list[int]: ...  # type: ignore[empty-body]

    for function, text in (
        (scalar, "must be annotated list[...]: it gets a list, not <class 'int'>"),
        (nothing, "has no parameter: nothing tells it how many"),
        (named, "must be one that can be given by position and by name"),
    ):
        service = Service()
        service.method(batch=2)(function)
        with pytest.raises(ServiceError, match=re.escape(text)):
            service.prepare()


def test_the_documented_function_is_one() -> None:
    page = Path(faircall.__file__).parent / "docs/batching.md"
    if not page.exists():
        pytest.skip("runs in a checkout only")
    found: dict[str, Any] = {}
    exec(page.read_text().partition("```python\n")[2].partition("```")[0], found)
    answer = invoke(found["service"], "classify", b'{"image":"aGVsbG8=","top":2}')
    assert answer.body == b'["5 bytes","5 bytes"]'
