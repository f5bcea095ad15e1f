"""What a reader goes by: rules and limits, each declared where it is used."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...scheduling.cost import CostRules
from ..groups import Group
from ..settings.trusted_peers import NOBODY, TrustedPeers
from ..standing import LevelRules
from ..wire.limits import WireLimits
from .backoff import BackOffRules
from .caller_rules import CallerRules
from .client_limits import ClientLimits
from .lanes import ReservedCalls
from .staging import AdmissionLimits
from .timeouts import Timeouts
from .waiting import NO_WAITS, WaitLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """Those that can be put in force while it serves."""

    limits: ClientLimits = field(default_factory=ClientLimits)
    admission_limits: AdmissionLimits = field(default_factory=AdmissionLimits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    backoff_rules: BackOffRules = field(default_factory=BackOffRules)
    reserved: ReservedCalls = field(default_factory=ReservedCalls)
    service_users: frozenset[str] = frozenset()
    grace_ns: int = 30_000_000_000  # that calls in flight have when the server ends
    level_rules: LevelRules = field(default_factory=LevelRules)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """`trusted` may say for whom they call; `identities` is the size of their table."""

    live: LiveSettings = field(default_factory=LiveSettings)
    trusted: TrustedPeers = NOBODY
    wire_limits: WireLimits = field(default_factory=WireLimits)
    rules: CallerRules = field(default_factory=CallerRules)
    costs: CostRules = field(default_factory=CostRules)
    identities: int = 4096
    waiting: WaitLimits = NO_WAITS
    groups: tuple[Group, ...] = ()  # of handlers; (): there is but one
