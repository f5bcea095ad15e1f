"""What the handlers of a reader under test serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faircall.workers.context import current_call
from faircall.workers.service import Service

if TYPE_CHECKING:
    from .reader_world import World


def service_of(world: World) -> Service:
    """Methods that tell `world.seen` what they saw, or move its clock."""
    service = Service()

    @service.method(idempotent=True)
    def echo(x: object = None) -> object:
        return x

    @service.method
    def fail(text: str = "no") -> None:
        raise RuntimeError(text)

    @service.method
    def spend(ms: float) -> str:
        """Takes so long."""
        world.pass_ms(ms)
        return "spent"

    @service.method
    def big(count: int) -> str:
        return "x" * count

    @service.method(timeout=0.5)
    def brief() -> str:
        return "brief"

    @service.method
    def seen() -> str:
        """Leaves its call to be looked at."""
        world.seen.append(current_call())
        return current_call().user

    @service.method
    def end() -> None:
        raise SystemExit(3)

    return service
