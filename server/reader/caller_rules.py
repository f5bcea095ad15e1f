"""What a reader needs to know of the settings to tell who calls, and who is charged."""

from __future__ import annotations

from dataclasses import dataclass

from ...scheduling.identity import IdentityProvider
from ...shm.columns import Counter
from ...shm.shared import Shared
from ..settings.trusted_peers import NOBODY, TrustedPeers
from .identities import Identities
from .newcomers import Newcomers
from .pair_file import PairFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRules:
    """`provider` None: the caller itself is charged. `newcomer_calls` 0: a row for every name."""

    proxies: TrustedPeers = NOBODY
    proxy_protocol: bool = False
    tokens: PairFile | None = None
    required: bool = False
    provider: IdentityProvider | None = None
    newcomer_calls: int = 0

    def newcomers(self, shared: Shared) -> Newcomers | None:
        if not self.newcomer_calls:
            return None
        swept = shared.columns.own(shared.index("janitor"))
        return Newcomers(self.newcomer_calls, lambda: swept[Counter.SWEEPS])

    def identities(
        self, shared: Shared, newcomers: Newcomers | None, counts: memoryview
    ) -> Identities | None:
        if self.provider is None:
            return None
        return Identities(shared.names, self.provider, newcomers, counts)
