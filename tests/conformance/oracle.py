"""Hadoop's side of the cases: names of its exceptions, and the classes it was tested with."""

from __future__ import annotations

from collections.abc import Callable

from faircall.scheduling.admission import Admission
from faircall.scheduling.cost import PhaseTimes
from faircall.scheduling.errors import BadValue, NotBuilt, NotParseable, UnknownClass
from faircall.scheduling.identity import Caller
from faircall.scheduling.queues import LinkedBlockingQueue
from faircall.scheduling.turns import C

NAMESPACE = "ipc.8020"
RUNNING_SYSTEM = {f"{NAMESPACE}.decay-scheduler.backoff.responsetime.mode": "hadoop"}


class NoSuchElement(LookupError):
    """An element was asked of an empty queue."""


_EXCEPTIONS: tuple[tuple[type[Exception], str], ...] = (
    (NotParseable, "NumberFormatException"),
    (BadValue, "IllegalArgumentException"),
    (UnknownClass, "ClassNotFoundException"),
    (NotBuilt, "RuntimeException"),
    (NotImplementedError, "NotImplementedException"),
    (NoSuchElement, "NoSuchElementException"),
)


def java_name(error: BaseException) -> str | None:
    """The simple name of the Java exception that says the same; None if there is none."""
    return next((name for kind, name in _EXCEPTIONS if isinstance(error, kind)), None)


def answer(call: Callable[[], object]) -> object:
    """What `call` returns, or the recorded form of the error that it raises."""
    try:
        return call()
    except tuple(kind for kind, _ in _EXCEPTIONS) as error:
        described = {
            "type": java_name(error),
            "cause": error.__cause__ and java_name(error.__cause__),
        }
        return {"error": {key: name for key, name in described.items() if name is not None}}


def overflow(form: Admission) -> dict[str, object]:
    """The recorded form of a refusal."""
    return {
        "error": {
            "type": "CallQueueOverflowException",
            "variant": form.value,
            "rpc_status": "FATAL" if form.closes_connection else "ERROR",
            "client_sees": "StandbyException"
            if form is Admission.FAILOVER
            else "RetriableException",
        }
    }


class PrefixIdentity:
    """The user's name up to the first underscore."""

    def identity_of(self, caller: Caller) -> str | None:
        return None if caller.user is None else caller.user.partition("_")[0]


class ContextIdentity:
    """The context, None when absent."""

    def identity_of(self, caller: Caller) -> str | None:
        return caller.context


class NotAProvider:
    """Provides nothing."""


class IntCtorScheduler:
    """Built from the number of levels; always answers the lowest."""

    def __init__(self, levels: int) -> None:
        self.levels = levels

    def level_of(self, caller: Caller) -> int:
        return self.levels - 1

    def backs_off(self, level: int) -> bool:
        return False

    def complete(self, caller: Caller, level: int, times: PhaseTimes, charged: int = 0) -> None:
        return None


class NoArgScheduler(IntCtorScheduler):
    """Built from nothing; always answers level 0, and always backs off."""

    def __init__(self) -> None:
        super().__init__(1)

    def backs_off(self, level: int) -> bool:
        return True


class BadCtorScheduler(IntCtorScheduler):
    """Cannot be built from what there is."""

    def __init__(self, levels: int, more: str) -> None:
        super().__init__(levels)


class ArrayBlockingQueue(LinkedBlockingQueue[C]):
    """Any queue that is built from a capacity."""


class SynchronousQueue(LinkedBlockingQueue[C]):
    """Built from nothing; has no room."""

    def __init__(self) -> None:
        super().__init__(1)
        self.capacity = 0


def importable(text: str) -> str:
    """A class list with the oracle's own classes under names by which they can be imported."""
    return text.replace("org.apache.hadoop.ipc.GoldenOracle$", f"{__name__}:")
