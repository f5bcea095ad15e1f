"""The methods that the conformance lists and interoperability scripts call."""

from __future__ import annotations

import time
from typing import Any

from faircall import Service

service = Service("conformance")


@service.method(idempotent=True)
def echo(x: Any) -> Any:
    return x


@service.method(idempotent=True)
def add(a: Any, b: Any) -> Any:
    return a + b


@service.method(idempotent=True)
def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@service.method
def fail(message: str) -> None:
    raise RuntimeError(message)


@service.method(idempotent=True)
def subtract(minuend: int | float, subtrahend: int | float) -> int | float:
    return minuend - subtrahend


@service.method(name="sum", idempotent=True)
def total(*numbers: int | float) -> int | float:
    return sum(numbers)


@service.method(idempotent=True)
def get_data() -> list[Any]:
    return ["hello", 5]


@service.method
def update(*values: Any) -> None:
    """Takes anything and answers null."""


@service.method
def notify_hello(*values: Any) -> None:
    """Takes anything and answers null."""


@service.method
def notify_sum(*values: Any) -> None:
    """Takes anything and answers null."""
