"""The generator in Python, for machines without a C compiler: the same plans, the same results.

It sends some ten thousand calls a second at most, and is late where the one in C is not.
"""

from __future__ import annotations

import json
import math
import selectors
import time

from .histogram import Histogram
from .native import LoadFailed, Progress
from .plan import SHED_CODES, Plan
from .portable_flow import CHUNK_BYTES, SECOND_NS, Call, Connection, Flow, found_by
from .result import Result, result_of

NAP_S = 0.005


class Run:
    """`run` may be called once."""

    def __init__(self, plan: Plan, progress: Progress | None) -> None:
        self.plan, self.progress = plan, progress
        users = [user for group in plan.groups for user in group.each()]
        self.flows = [Flow(plan, user, number) for number, user in enumerate(users)]
        self.selector = selectors.DefaultSelector()
        self.lag, self.ok, self.other, self.first_error = Histogram(), 0, 0, ""
        for flow in self.flows:
            for _ in range(flow.group.connections):
                flow.connections.append(connection := Connection(plan, flow))
                self.selector.register(connection.sock, selectors.EVENT_READ, connection)
        self.started = time.monotonic_ns()
        self.measure = self.started + int(plan.warm_up_s * SECOND_NS)
        self.ends = self.measure + int(plan.seconds * SECOND_NS)

    def run(self) -> Result:
        for flow in self.flows:
            starts = self.started + int(flow.group.starts_s * SECOND_NS)
            flow.page.begin(starts)
            if flow.group.rate:
                flow.due = starts
                flow.next_due()
        last = self.ends + int(self.plan.drain_s * SECOND_NS)
        cpu, told, before = time.process_time_ns(), 1, 0
        while (now := time.monotonic_ns()) < last and not self._finished(now):
            self._send(now)
            self._receive()
            if self.progress and now < self.ends and now > self.started + told * SECOND_NS:
                self.progress(told, self.ok - before, self.other)
                told, before = told + 1, self.ok
        share = (time.process_time_ns() - cpu) / max(1, time.monotonic_ns() - self.started)
        for connection in self._connections():
            self._give_up(connection, "timeout")
            connection.sock.close()
        self.selector.close()
        return result_of(found_by("python", self, share))

    def _connections(self) -> list[Connection]:
        return [connection for flow in self.flows for connection in flow.connections]

    def _finished(self, now: int) -> bool:
        idle = not any(connection.calls for connection in self._connections())
        idle = idle and not any(flow.backlog for flow in self.flows)
        return idle and (now >= self.ends or not any(flow.may_send for flow in self.flows))

    def _send(self, now: int) -> None:
        for flow in self.flows:
            while flow.due <= now and flow.due < self.ends and flow.may_send:
                if flow.due >= self.measure:
                    self.lag.note(now - int(flow.due))
                flow.backlog.append(int(flow.due))
                flow.next_due()
            starts = self.started + flow.group.starts_s * SECOND_NS
            closed = not flow.group.rate and starts <= now < self.ends
            for connection in flow.connections:
                sent = connection.flush() if connection.unsent else 0
                while connection.free and flow.backlog:
                    sent += connection.issue(flow.backlog.popleft(), now)
                while closed and connection.free and flow.may_send:
                    sent += connection.issue(now, now)
                if self._counts(now):
                    flow.bytes_out += sent

    def _receive(self) -> None:
        due = min((flow.due for flow in self.flows), default=math.inf)
        wait = min(NAP_S, max(0.0, (due - time.monotonic_ns()) / SECOND_NS))
        for key, _ in self.selector.select(wait):
            connection: Connection = key.data
            try:
                data = connection.sock.recv(CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                self._lose(connection, "reset")
                continue
            if not data:
                self._lose(connection, "eof")
                continue
            now = time.monotonic_ns()
            if self._counts(now):
                connection.flow.bytes_in += len(data)
            for status, answer in connection.answers(data):
                self._answered(connection, status, answer, now)

    def _lose(self, connection: Connection, how: str) -> None:
        connection.open = False
        connection.flow.lost += 1
        self.selector.unregister(connection.sock)
        self._give_up(connection, how)

    def _counts(self, now: int) -> bool:
        return self.measure <= now < self.ends

    def _answered(self, connection: Connection, status: int, answer: bytes, now: int) -> None:
        try:
            message = json.loads(answer)
            call = connection.calls.pop(message["id"])
        except (ValueError, KeyError, TypeError):
            if connection.http and connection.calls:  # answers come in the order of the requests
                call = connection.calls.pop(next(iter(connection.calls)))
                self._settle(
                    connection.flow, call, "shed" if status in (429, 503) else "error", now
                )
            else:
                connection.flow.stray += 1
            return
        error = message.get("error")
        shed = status in (429, 503) or (error and error.get("code") in SHED_CODES)
        outcome = "shed" if shed else "error" if error or status >= 400 else "ok"
        if outcome == "error" and not self.first_error:
            self.first_error = answer.decode(errors="replace")[:300]
        self._settle(connection.flow, call, outcome, now)

    def _give_up(self, connection: Connection, outcome: str) -> None:
        now = time.monotonic_ns()
        for call in connection.calls.values():
            self._settle(connection.flow, call, outcome, now)
        connection.calls.clear()

    def _settle(self, flow: Flow, call: Call, outcome: str, now: int) -> None:
        counts, late = flow.counts[call.request], now - call.due
        if outcome == "ok" and self.plan.timeout_s and late > self.plan.timeout_s * SECOND_NS:
            outcome = "timeout"
        counts.total[outcome] += 1
        self.ok, self.other = self.ok + (outcome == "ok"), self.other + (outcome != "ok")
        if outcome == "ok" and self._counts(now):
            flow.answered += 1
        if flow.group.page:
            flow.page.came(outcome, now, self._counts(now))
        at = call.due if flow.group.rate else now
        if self._counts(at):
            counts.measured[outcome] += 1
            if outcome == "ok":
                counts.latency.note(late)
                counts.service.note(now - call.sent)
        second = (at - self.started) // SECOND_NS
        if 0 <= second < len(flow.failed):
            if outcome == "ok":
                flow.latencies[second].note(late)
            else:
                flow.failed[second] += 1


def run_portable(plan: Plan, progress: Progress | None = None) -> Result:
    """Run the plan in this process. LoadFailed."""
    try:
        return Run(plan, progress).run()
    except OSError as error:
        raise LoadFailed(f"cannot connect to {plan.address}: {error}") from None
