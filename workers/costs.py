"""What a call costs when it has run, where that is not simply 1 on arrival.

    enqueue         from its arrival until it is offered to the queue
    queue           until the handler begins
    handler         in the handler outside the method: reading the request, finding the method
    processing      in the method, parameters and result included
      lockwait, lockshared, lockexclusive     of that, as the method took or reported them
      lockfree                                the rest of it
    response        charged by the reader that writes the answer

All are nanoseconds, as Hadoop's ProcessingDetails are; `rpc.metrics.timeunit` is the unit in which
statistics show times, and in which a provider may ask for them (`PhaseTimes.get`).

A call that failed is charged like any other. One whose handler died is charged what its reader
reserved, or more if it ran for longer (`shm.settlement`, `server.janitor.dead_calls`).
"""

from __future__ import annotations

import logging

from ..scheduling.cost import CostProvider, CostRules, Phase, PhaseTimes
from ..scheduling.errors import NotBuilt
from ..shm.layout import SLOT, word_of
from ..shm.settlement import Settlement
from ..shm.shared import Shared
from .context import Call
from .errors import ServiceError

log = logging.getLogger("faircall.handler")

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_ARRIVED, _QUEUED, _CHARGED = _S["arrived_ns"], _S["queued_ns"], _S["charged"]
_MOST = 1 << 63


class CallCosts:
    """Those of handler `number`, whose process index is `index`."""

    def __init__(self, shared: Shared, index: int, number: int, provider: CostProvider) -> None:
        self._q, self._columns = shared.segment.q, shared.columns
        self._number, self._provider = number, provider
        self._settlement = Settlement(shared.segment, shared.columns, index)
        self._failed = False

    def settle(self, own: int, method: int, call: Call, began_ns: int, ended_ns: int) -> None:
        """Charge the call whose slot's words begin at `own`, before its answer is complete."""
        q = self._q
        times = phase_times(call, q[own + _ARRIVED], q[own + _QUEUED], began_ns, ended_ns)
        cost = self._cost(times, q[own + _CHARGED])
        self._settlement.settle(own, cost)
        self._columns.cost(self._number, method, cost)

    def _cost(self, times: PhaseTimes, charged: int) -> int:
        """What the provider says; what was reserved, if it fails: it must not end the handler."""
        try:
            cost = self._provider.cost(times)
            if type(cost) is not int or not -_MOST <= cost < _MOST:
                raise TypeError(f"a cost is a signed 64-bit integer, not {cost!r}")
        except Exception as error:
            if not self._failed:
                provider = type(self._provider).__name__
                log.error("cost provider failed", {"provider": provider}, exc_info=error)
            self._failed = True
            return charged
        return cost


def phase_times(
    call: Call, arrived_ns: int, queued_ns: int, began_ns: int, ended_ns: int
) -> PhaseTimes:
    """The times of a call that a handler began at `began_ns` and ran until `ended_ns`."""
    locked_ns = call.wait_ns + call.shared_ns + call.exclusive_ns
    times = [0] * len(Phase)
    times[Phase.ENQUEUE] = queued_ns - arrived_ns
    times[Phase.QUEUE] = began_ns - queued_ns
    times[Phase.HANDLER] = ended_ns - began_ns - call.processing_ns
    times[Phase.PROCESSING] = call.processing_ns
    times[Phase.LOCKFREE] = call.processing_ns - locked_ns
    times[Phase.LOCKWAIT] = call.wait_ns
    times[Phase.LOCKSHARED] = call.shared_ns
    times[Phase.LOCKEXCLUSIVE] = call.exclusive_ns
    for phase, spent_ns in (call.reported_ns or {}).items():
        times[phase] += spent_ns
    return PhaseTimes(tuple(max(0, spent_ns) for spent_ns in times))


def call_costs(shared: Shared, index: int, number: int, rules: CostRules) -> CallCosts | None:
    """For the handler; None if calls cost 1 on arrival. ServiceError for a bad provider."""
    if rules.counts_on_arrival:
        return None
    try:
        provider = rules.build()
    except NotBuilt as error:
        raise ServiceError(f"cost-provider.impl: {error}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise ServiceError(f"cost-provider.impl: {rules.provider} raised {text}") from error
    return CallCosts(shared, index, number, provider)
