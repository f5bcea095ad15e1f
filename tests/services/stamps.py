"""Tells when its calls were claimed."""

from __future__ import annotations

from faircall import Service, current_call

service = Service("stamps")


@service.method
def claimed_ns() -> int:
    return current_call().claimed_ns
