"""How dispatches are counted: the switches of dispatch throttling (Pulsar: `broker.conf`).

    dispatch-throttling-on-batch-message-enabled          a JSON-RPC batch counts as one call
    dispatch-throttling-on-non-backlog-consumer-enabled   callers without a backlog are limited, too
    dispatch-throttling-for-filtered-entries-enabled      dropped calls are charged
    precise-dispatcher-flow-control                       reads are planned by calls per batch

Differs: the first and the last exclude each other as documented, and are refused together. Bytes
are those of the request, of the answer or of both, and a limit may be paced: both are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .errors import BadValue


class CountedBytes(StrEnum):
    """Whose bytes a byte limit counts."""

    REQUEST = "request"
    ANSWER = "answer"
    BOTH = "both"

    def of(self, request_bytes: int, answer_bytes: int) -> int:
        """The bytes to charge for a request and its answer."""
        counted = request_bytes if self is not CountedBytes.ANSWER else 0
        return counted + (answer_bytes if self is not CountedBytes.REQUEST else 0)


@dataclass(frozen=True, kw_only=True)
class DispatchSettings:
    """The switches, with Pulsar's defaults; BadValue where two exclude each other."""

    on_batch_message: bool = False
    on_non_backlog_consumer: bool = True
    for_filtered_entries: bool = False
    precise: bool = False
    backlog_threshold: int = 1
    counted_bytes: CountedBytes = CountedBytes.REQUEST
    paced: bool = False

    def __post_init__(self) -> None:
        if self.precise and self.on_batch_message:
            raise BadValue(
                "precise-dispatcher-flow-control and dispatch-throttling-on-batch-message-enabled "
                "are mutually exclusive: turn one of them off"
            )
        if self.backlog_threshold < 0:
            raise BadValue(f"backlog-threshold = {self.backlog_threshold}: must be 0 or more calls")


def counted_calls(calls: int, *, on_batch_message: bool) -> int:
    """What the head of a batch of `calls` calls is charged; its items skip the gate then."""
    return 1 if on_batch_message else calls


def has_backlog(had: bool, waiting: int, threshold: int) -> bool:
    """Whether a queue has a backlog: from more than `threshold` calls on, until it is empty."""
    return waiting > threshold or (had and waiting > 0)
