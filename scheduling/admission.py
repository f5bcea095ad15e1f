"""What becomes of a call that is to be queued, and the three forms of a refusal.

Hadoop: `CallQueueOverflowException`; the fail-over form is set as in HADOOP-18868.

    form        connection     the client sees       used when
    KEEPALIVE   stays open     retry later           the queue is full, for all but the last level
    DISCONNECT  is closed      retry later           ... for the last level, or back-off by time
    FAILOVER    is closed      try another server    either, if `overflow.trigger.failover` is set

Differs: a refusal is a return value. Our server keeps the connection and its other calls unless a
setting asks for the closing forms.
"""

from __future__ import annotations

from enum import StrEnum


class Admission(StrEnum):
    """The outcome of putting a call into a queue."""

    QUEUED = "queued"
    BLOCKED = "blocked"  # no room, and the reader would wait: the call is not in the queue
    FULL = "full"  # no room in a queue that knows no forms of refusal
    KEEPALIVE = "keepalive"
    DISCONNECT = "disconnect"
    FAILOVER = "failover"

    @property
    def refused(self) -> bool:
        """Whether the client is told to try again."""
        return self in (Admission.KEEPALIVE, Admission.DISCONNECT, Admission.FAILOVER)

    @property
    def closes_connection(self) -> bool:
        """Whether Hadoop's server closes the connection after it (RPC status FATAL)."""
        return self in (Admission.DISCONNECT, Admission.FAILOVER)


def overflow_form(level: int, last_level: int, failover: bool) -> Admission:
    """How a full queue refuses a call of `level`: the heaviest users lose their connection."""
    if failover:
        return Admission.FAILOVER
    return Admission.DISCONNECT if level == last_level else Admission.KEEPALIVE


def backoff_form(failover: bool) -> Admission:
    """How a call is refused by policy, or by a plain queue that is full."""
    return Admission.FAILOVER if failover else Admission.DISCONNECT
