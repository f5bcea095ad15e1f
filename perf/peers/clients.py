"""Load by a client in Python, in a process of its own, for peers that do not speak JSON-RPC.

    python -m faircall.perf.peers.clients MODULE FUNCTION < plan as JSON > result as JSON

It sends some thousand calls a second at most, and takes a processor for it: so faircall is measured
with its own client in the same loop, and figures are compared with those.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import math
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from ...client.address import Address
from ..bench.histogram import Histogram
from ..bench.native import LoadFailed
from ..bench.plan import Plan, Request
from ..bench.portable_flow import SECOND_NS, Flow, found_by
from ..bench.result import Result, result_of
from .peer import Peer

Call = Callable[[str, Sequence[Any]], Awaitable[Any]]
Connect = Callable[[Address], Awaitable[Call]]
GRACE_S = 20.0  # beyond what a plan says


def run_client(peer: Peer, plan: Plan) -> Result:
    """The plan, by the peer's client. LoadFailed."""
    words = [sys.executable, "-m", __name__, peer.module, peer.caller]
    limit_s = plan.patience_s + plan.warm_up_s + plan.seconds + plan.drain_s + GRACE_S
    try:
        done = subprocess.run(
            words, input=msgspec.json.encode(plan), capture_output=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"the client of {peer.name} did not end in {limit_s:.0f} s") from None
    if done.returncode:
        raise LoadFailed(f"the client of {peer.name}: {done.stderr.decode().strip()[-2000:]}")
    return result_of(json.loads(done.stdout))


class Load:
    """A plan that runs; `run` may be called once."""

    def __init__(self, plan: Plan, connect: Connect) -> None:
        self.plan, self.connect, self.lag, self.first_error = plan, connect, Histogram(), ""
        users = [user for group in plan.groups for user in group.each()]
        self.flows = [Flow(plan, user, number) for number, user in enumerate(users)]

    async def run(self) -> dict[str, Any]:
        """The result, as a generator prints it."""
        async with asyncio.timeout(self.plan.patience_s):
            slots = [(flow, call) for flow in self.flows for call in await self._calls(flow)]
        gc.freeze()
        self.started = time.monotonic_ns()
        self.measure = self.started + int(self.plan.warm_up_s * SECOND_NS)
        self.ends = self.measure + int(self.plan.seconds * SECOND_NS)
        cpu_ns = time.process_time_ns()
        for flow in self.flows:
            flow.due = self.started + int(flow.group.starts_s * SECOND_NS)
            if flow.group.rate:
                flow.next_due()
        tasks = [asyncio.create_task(self._slot(flow, call)) for flow, call in slots]
        length_s = self.plan.warm_up_s + self.plan.seconds
        _, late = await asyncio.wait(tasks, timeout=length_s + self.plan.drain_s)
        share = (time.process_time_ns() - cpu_ns) / (time.monotonic_ns() - self.started)
        for task in late:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found
        return self._as_json(share)

    def _as_json(self, share: float) -> dict[str, Any]:
        for flow in self.flows:
            while flow.group.rate and flow.due < self.ends:  # for which no slot was free
                flow.backlog.append(int(flow.due))
                flow.next_due()
        return found_by("python client", self, share)

    async def _calls(self, flow: Flow) -> Sequence[Call]:
        """What to call with: `depth` times each connection."""
        made = [await self.connect(self.plan.address) for _ in range(flow.group.connections)]
        return [call for call in made for _ in range(flow.group.depth)]

    async def _slot(self, flow: Flow, call: Call) -> None:
        """One call after the other: when the last one ended, or when one is due."""
        async for due in self._dues(flow):
            which = flow.chosen()
            request, sent = flow.group.requests[which], time.monotonic_ns()
            flow.sent += 1
            outcome = await self._outcome(call, request)
            self._settle(flow, which, outcome, due or sent, sent)
            if outcome == "timeout":
                return

    async def _outcome(self, call: Call, request: Request) -> str:
        try:
            await call(request.method, json.loads(request.params))
        except asyncio.CancelledError:
            return "timeout"
        except Exception as error:
            self.first_error = self.first_error or f"{type(error).__name__}: {error}"[:300]
            return "error"
        return "ok"

    async def _dues(self, flow: Flow) -> AsyncIterator[int]:
        """When each of a slot's calls is due; 0: at once (a closed loop)."""
        if not flow.group.rate:
            await asyncio.sleep(flow.group.starts_s)
            while flow.may_send and time.monotonic_ns() < self.ends:
                yield 0
            return
        while flow.may_send:
            due = int(flow.due)
            flow.next_due()
            if due >= self.ends:
                return
            await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / SECOND_NS))
            if due >= self.measure:
                self.lag.note(max(0, time.monotonic_ns() - due))
            yield due

    def _settle(self, flow: Flow, which: int, outcome: str, due: int, sent: int) -> None:
        now, counts = time.monotonic_ns(), flow.counts[which]
        counts.total[outcome] += 1
        if outcome == "ok" and self.measure <= now < self.ends:
            flow.answered += 1
        at = due if flow.group.rate else now
        if self.measure <= at < self.ends:
            counts.measured[outcome] += 1
            if outcome == "ok":
                counts.latency.note(now - due)
                counts.service.note(now - sent)
        second = (at - self.started) // SECOND_NS
        if second < math.ceil(self.plan.warm_up_s + self.plan.seconds):
            if outcome == "ok":
                flow.latencies[second].note(now - due)
            else:
                flow.failed[second] += 1


def main(module: str, function: str) -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    connect: Connect = getattr(importlib.import_module(f".{module}", __package__), function)
    print(json.dumps(asyncio.run(Load(plan, connect).run())))


if __name__ == "__main__":
    main(*sys.argv[1:])
