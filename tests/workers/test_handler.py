"""One handler, step by step: what it runs, what its record says, how it sleeps and ends."""

from __future__ import annotations

import gc
import json
import logging
import select

import pytest

from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.expected import adjusted
from faircall.shm.states import Life, Phase, Status
from faircall.workers.context import Worker, current_call
from faircall.workers.handler import HandlerLimits, run_handler
from faircall.workers.idle import BACKSTOP_MS
from faircall.workers.service import Service

from .handler_desk import MS, Desk, Methods


def count(desk: Desk, counter: int) -> int:
    return desk.shared.columns.total(counter)


def row(desk: Desk, field: str) -> int:
    return desk.shared.row("handler")[field]


def result(body: bytes) -> tuple[int, bytes]:
    return Status.RESULT, body


# -- one call --------------------------------------------------------------------------------------


def test_a_call_is_run_and_answered(desk: Desk) -> None:
    slot = desk.put("echo", b'["x"]')
    assert desk.work() == 1
    assert desk.collect() == {slot: result(b'"x"')}
    assert desk.work() == 0


def test_an_exception_is_an_error_and_its_traceback_is_only_logged(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    slot = desk.put("fail")
    desk.work()
    status, body = desk.collect()[slot]
    assert (status, json.loads(body)["message"]) == (Status.ERROR, "ValueError: no")
    assert "raise ValueError" in caplog.text
    assert count(desk, Counter.FAILED) == 1


def test_what_a_call_took_is_noted(desk: Desk) -> None:
    for ms in (3, 1):
        slot = desk.put("spend", b"[%d]" % ms)
        desk.work()
    assert desk.get(slot, "spent_ns") == 1 * MS
    assert desk.expected_ns("spend") == adjusted(3 * MS, [1 * MS])
    assert count(desk, Counter.RUN) == 2
    assert count(desk, Counter.BUSY_NS) == 4 * MS
    figures = desk.shared.columns.methods[0][desk.shared.names.methods.find("spend")]
    assert [int(each) for each in figures] == [2, 0, 4 * MS, 3 * MS, 0, 0, 0, 0]


def test_a_method_sees_its_call(desk: Desk, methods: Methods) -> None:
    packed = json.dumps({"caller_context": "c", "traceparent": "t"}).encode()
    request = len(packed).to_bytes(states.META_LENGTH, "big") + packed + b"[]"
    desk.put("pause", request, level=2, flags=states.WITH_META, timeout_ms=70)
    desk.work(1)
    seen = methods.seen[0]
    assert (seen.method, seen.user, seen.level, seen.attempt) == ("pause", "anna", 2, 0)
    assert (seen.context, seen.traceparent, seen.worker.index) == ("c", "t", 1)
    assert seen.remaining() == pytest.approx(0.07)


def test_no_call_is_current_afterwards(desk: Desk) -> None:
    desk.put("fail")
    desk.work()
    with pytest.raises(RuntimeError, match="running none"):
        current_call()


def test_garbage_is_collected_in_user_code_and_nowhere_else(desk: Desk) -> None:
    found = []
    desk.during(lambda: found.append(gc.isenabled()))
    desk.put("pause")
    desk.work()
    assert found == [True]
    assert not gc.isenabled()


def test_while_it_runs_its_record_says_which_call(desk: Desk) -> None:
    found: list[tuple[int, int]] = []
    desk.during(lambda: found.append((row(desk, "current"), row(desk, "current_deadline_ns"))))
    slot = desk.put("pause", timeout_ms=70)
    desk.work()
    generation = desk.get(slot, "state") >> states.GENERATION_SHIFT
    assert found == [(generation << 32 | slot + 1, desk.now_ns + 70 * MS)]
    assert row(desk, "current") == 0


def test_each_claim_is_a_beat(desk: Desk) -> None:
    desk.now_ns += 5
    desk.work()
    assert row(desk, "beat_ns") == desk.now_ns


# -- calls that nobody waits for -------------------------------------------------------------------


@pytest.mark.parametrize(("timeout_ms", "of_method"), [(2500, 2.5), (2400, None)])
def test_a_method_that_ends_at_its_deadline_tells_whose_it_was(
    desk: Desk, timeout_ms: int, of_method: float | None
) -> None:
    slot = desk.put("spend_and_check", b"[2500]", timeout_ms=timeout_ms)
    desk.work()
    status, body = desk.collect()[slot]
    error = json.loads(body)
    assert (status, error["code"]) == (Status.ERROR, -32050)
    assert error["data"].get("method_timeout_s") == of_method


def test_a_call_that_is_past_its_deadline_does_not_begin(desk: Desk, methods: Methods) -> None:
    slot = desk.put("pause", timeout_ms=5)
    desk.now_ns += 5 * MS
    assert desk.work() == 1
    assert desk.collect() == {slot: (Status.EXPIRED, b"")}
    assert methods.seen == []
    assert (count(desk, Counter.LATE), count(desk, Counter.RUN)) == (1, 0)


def test_a_call_that_was_given_up_after_its_claim_does_not_begin(
    desk: Desk, methods: Methods
) -> None:
    desk.expect("pause", 1000)
    first, second = desk.put("pause"), desk.put("pause")
    desk.during(lambda: desk.withdraw(second))
    while desk.work():
        pass
    assert len(methods.seen) == 1
    assert desk.collect()[first] == result(b'"paused"')


def test_a_method_can_ask_whether_anybody_waits(desk: Desk, methods: Methods) -> None:
    slot = desk.put("pause")

    def deed() -> None:
        desk.withdraw(slot)
        methods.seen[0].check()

    desk.during(deed)
    desk.work()
    status, body = desk.collect()[slot]
    assert (status, json.loads(body)["code"]) == (Status.ERROR, -32051)


def test_nobody_waits_for_the_answer_of_a_notification(desk: Desk, methods: Methods) -> None:
    slot = desk.put("pause", flags=states.NOTIFICATION)
    desk.work()
    assert len(methods.seen) == 1
    assert desk.collect() == {slot: result(b"")}


# -- start, sleep and stop -------------------------------------------------------------------------


def test_at_its_start_readers_learn_what_it_serves(desk: Desk, methods: Methods) -> None:
    rows = desk.shared.names.methods
    echo, spend = (rows.rows[rows.find(name)] for name in ("echo", "spend"))
    assert (int(echo["flags"]), int(echo["timeout_ns"])) == (states.IDEMPOTENT, 0)
    assert (int(spend["flags"]), int(spend["timeout_ns"])) == (0, 2_500 * MS)
    assert row(desk, "status") == Life.READY
    assert [worker.index for worker in methods.workers] == [0, 1]


def test_the_bell_ends_its_sleep(desk: Desk) -> None:
    desk.shared.doorbells.ring_handlers(1)
    desk.handlers[0].idle.wait()
    assert not select.select([desk.shared.doorbells.handlers[0]], [], [], 0)[0]


def test_it_sleeps_until_a_held_call_may_go_on(desk: Desk) -> None:
    handler, word = desk.handlers[0], desk.table.held.next_open_word
    assert handler.idle._sleep_ms() == BACKSTOP_MS
    for opens_ns, sleep_ms in (
        (desk.now_ns + 7 * MS, 7),
        (desk.now_ns - 1, 0),
        (1 << 62, BACKSTOP_MS),
    ):
        desk.q[word] = opens_ns
        assert handler.idle._sleep_ms() == sleep_ms


class SilentBell:
    """Never rings; while the handler waits for it the third time, a call is there."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.waits = 0

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        self.waits += 1
        assert self.waits <= 3, "it slept on although a call waits"
        if self.waits == 3:
            self.desk.put("pause")
        return []


def test_a_call_that_nobody_rang_for_ends_the_sleep(desk: Desk) -> None:
    """Its ringer died: the look at every backstop finds it, and finds nothing before."""
    handler, bell = desk.handlers[0], SilentBell(desk)
    assert handler.do_work() == 0
    handler.idle._poll = bell  # type: ignore[assignment]
    handler.idle.wait()
    assert bell.waits == 3


def test_it_runs_until_the_server_is_stopped(
    desk: Desk, methods: Methods, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = []

    @methods.service.on_stop
    def fails() -> None:
        raise RuntimeError("too late")

    @methods.service.on_stop
    def stops(worker: Worker) -> None:
        stopped.append(worker.index)

    desk.during(lambda: desk.shared.phase.set(Phase.STOPPED, 0))
    slot = desk.put("pause")
    desk.handlers[0].run()
    assert list(desk.collect()) == [slot]
    assert stopped == [0]
    assert "stop hook failed" in caplog.text


def test_a_process_reports_when_it_is_ready_and_how_much_it_ran(
    desk: Desk, methods: Methods, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="faircall.handler")
    for number in range(2):  # its predecessor, and another: their calls are not this one's
        desk.put("echo", timeout_ms=1 << 40)
        desk.work(number)
    desk.put("echo", timeout_ms=1 << 40)
    desk.put("pause", timeout_ms=1 << 40)
    desk.during(lambda: desk.shared.phase.set(Phase.STOPPED, 0))
    said: list[str] = []
    assert run_handler(desk.shared, 0, lambda: methods.service, HandlerLimits(), said.append) == 0
    assert said == ["ready"]
    assert caplog.records[-1].args == {"index": 0, "calls": 2}


def test_a_service_that_cannot_be_loaded_is_never_ready(desk: Desk) -> None:
    said: list[str] = []

    def load() -> Service:
        raise LookupError("no such service")

    with pytest.raises(LookupError):
        run_handler(desk.shared, 0, load, HandlerLimits(), said.append)
    assert said == []


def test_the_names_of_users_do_not_pile_up(
    desk: Desk, methods: Methods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircall.workers.call_runner._MAX_NAMES", 2)
    names = desk.shared.names
    for name in ("anna", "bert", "carl", "anna"):
        desk.user = names.identity(name, 0)
        desk.put("pause")
        desk.work()
    assert [each.user for each in methods.seen] == ["anna", "bert", "carl", "anna"]
    assert len(desk.handlers[0].runner._user_names) <= 2
