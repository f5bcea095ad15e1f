"""The cost settings of a port, as the processes that charge want them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..scheduling.cost import CostRules, Phase

if TYPE_CHECKING:
    from .config_ipc import PortSettings


def cost_rules(ipc: PortSettings) -> CostRules:
    """Of the server of one port."""
    return CostRules(
        provider=ipc.scheduler.cost_provider,
        weights=tuple(getattr(ipc.weighted_cost, phase.name.lower()) for phase in Phase),
        charge=ipc.decay_scheduler.charge,
        namespace=f"ipc.{ipc.port}",
    )
