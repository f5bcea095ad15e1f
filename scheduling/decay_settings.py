"""The settings of a decay scheduler, and their keys, defaults and bounds.

Hadoop's keys as `DecayRpcScheduler` reads them, and two of ours:

    decay-scheduler.charge                          arrival (default) | completion (Hadoop 3.x)
    decay-scheduler.backoff.responsetime.mode       guide (default) | hadoop; see response_time.py

The top-user count is one for all servers (its key has no port). Differs: a decay factor that is not
a number is refused; Hadoop's range check lets NaN pass, and every cost then decays to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from . import decay, response_time
from .components import provider_class
from .conf import Conf
from .cost import CostProvider, DefaultCostProvider, cost_provider
from .errors import BadValue
from .identity import IDENTITY_PROVIDERS, IdentityProvider, UserIdentityProvider
from .parsing import durations_ms, integer, names, words
from .units import TimeUnit, metrics_time_unit

Charge = Literal["arrival", "completion"]
Choice = TypeVar("Choice", bound=str)

DEFAULT_TOP_USERS = 10
_DEPRECATED = "faircallqueue."


@dataclass(frozen=True, kw_only=True)
class DecaySettings:
    """Everything that a decay scheduler is told; `thresholds` has one entry less than levels."""

    levels: int
    factor: float = decay.DEFAULT_FACTOR
    period_ms: int = decay.DEFAULT_PERIOD_MS
    thresholds: Sequence[float] = ()
    service_users: frozenset[str] = frozenset()
    charge: Charge = "arrival"
    backoff_by_response_time: bool = False
    backoff_mode: response_time.Mode = "guide"
    backoff_thresholds_ms: Sequence[int] = ()
    time_unit: TimeUnit = TimeUnit.MILLISECONDS
    top_users: int = DEFAULT_TOP_USERS
    identity_provider: IdentityProvider = field(default_factory=UserIdentityProvider)
    cost_provider: CostProvider = field(default_factory=DefaultCostProvider)

    def __post_init__(self) -> None:
        """Fills the defaults that depend on the number of levels, and checks bounds; BadValue."""
        _require(self.levels >= 1, f"at least one level is needed, not {self.levels}")
        _require(0 < self.factor < 1, f"decay-factor must be between 0 and 1, not {self.factor}")
        _require(self.period_ms > 0, f"period-ms must be positive, not {self.period_ms}")
        _require(self.top_users > 0, f"top.user.count must be positive, not {self.top_users}")
        self._complete("thresholds", self.levels - 1, decay.default_thresholds)
        self._complete("backoff_thresholds_ms", self.levels, response_time.default_thresholds_ms)
        _require(
            min(self.backoff_thresholds_ms) > 0,
            f"back-off thresholds must be positive, not {list(self.backoff_thresholds_ms)}",
        )

    def _complete(self, name: str, count: int, default: Callable[[int], Sequence[Any]]) -> None:
        values = list(getattr(self, name)) or default(self.levels)
        _require(len(values) == count, f"{name}: {count} values expected, not {len(values)}")
        object.__setattr__(self, name, values)

    @classmethod
    def from_conf(cls, levels: int, conf: Conf) -> DecaySettings:
        """The settings of a server; BadValue, NotParseable, NotBuilt."""
        top_users = conf.plain("decay-scheduler.metrics.top.user.count")
        return cls(
            levels=levels,
            factor=_factor(conf),
            period_ms=_period_ms(conf),
            identity_provider=_identity_provider(conf),
            cost_provider=_cost_provider(conf),
            thresholds=_thresholds(conf),
            service_users=frozenset(names(conf.own("decay-scheduler.service-users") or "")),
            charge=_choice(conf, "decay-scheduler.charge", get_args(Charge)),
            backoff_by_response_time=conf.boolean(
                "decay-scheduler.backoff.responsetime.enable", False
            ),
            backoff_mode=_choice(
                conf, "decay-scheduler.backoff.responsetime.mode", ("guide", "hadoop")
            ),
            backoff_thresholds_ms=durations_ms(
                conf.own("decay-scheduler.backoff.responsetime.thresholds") or ""
            ),
            time_unit=metrics_time_unit(conf.plain("rpc.metrics.timeunit")),
            top_users=DEFAULT_TOP_USERS if top_users is None else integer(top_users),
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise BadValue(message)


def _factor(conf: Conf) -> float:
    key = "decay-scheduler.decay-factor"
    return conf.number(_DEPRECATED + key, 0.0) or conf.number(key, decay.DEFAULT_FACTOR)


def _period_ms(conf: Conf) -> int:
    key = "decay-scheduler.period-ms"
    deprecated = conf.integer(_DEPRECATED + key, 0, bits=64)
    return deprecated or conf.integer(key, decay.DEFAULT_PERIOD_MS, bits=64)


def _thresholds(conf: Conf) -> list[float]:
    key = "decay-scheduler.thresholds"
    percentages = conf.integers(_DEPRECATED + key) or conf.integers(key)
    return [percentage / 100.0 for percentage in percentages]


def _choice(conf: Conf, key: str, choices: tuple[Choice, ...]) -> Choice:
    text = (conf.own(key) or choices[0]).strip()
    for choice in choices:
        if choice == text:
            return choice
    raise BadValue(f"{key}: one of {', '.join(choices)} expected, not {text!r}")


def _identity_provider(conf: Conf) -> IdentityProvider:
    written = words(conf.inherited("identity-provider.impl") or "")
    found = provider_class(written, IDENTITY_PROVIDERS, "identity_of", UserIdentityProvider)
    provider: IdentityProvider = found()
    return provider


def _cost_provider(conf: Conf) -> CostProvider:
    return cost_provider(words(conf.inherited("cost-provider.impl") or ""), conf)
