"""Two services of echoes: one with a single method, and one with a hundred."""

from __future__ import annotations

from typing import Any

from ..workers.service import Service

MANY = 100


def _echoes(count: int) -> Service:
    made = Service(f"echoes-{count}")
    for number in range(count):

        def echo(x: Any) -> Any:
            return x

        made.method(name=f"echo-{number}", idempotent=True)(echo)
    return made


one, many = _echoes(1), _echoes(MANY)
