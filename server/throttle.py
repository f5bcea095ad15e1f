"""The settings under `[throttle]` as switches and lines of rates, which `limits` puts in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..scheduling.dispatch_lines import line_of
from ..scheduling.dispatch_policies import Rate
from .limits import Switches

if TYPE_CHECKING:
    from .config_throttle import Throttle


def switches_of(throttle: Throttle) -> Switches:
    """What holds for all limits."""
    return Switches(
        counted_bytes=throttle.count_bytes_of,
        paced=throttle.paced,
        dry_run=throttle.dry_run,
        batches=throttle.dispatch_throttling_on_batch_message_enabled,
        most_callers=throttle.max_callers,
    )


def lines_of(throttle: Throttle) -> tuple[str, ...]:
    """All limits, a line each; none: nothing is throttled."""
    defaults = (
        (
            "server",
            throttle.dispatch_throttling_rate_in_msg,
            throttle.dispatch_throttling_rate_in_byte,
        ),
        (
            "each method",
            throttle.dispatch_throttling_rate_per_topic_in_msg,
            throttle.dispatch_throttling_rate_per_topic_in_byte,
        ),
        (
            "callers of each method",
            throttle.dispatch_throttling_rate_per_subscription_in_msg,
            throttle.dispatch_throttling_rate_per_subscription_in_byte,
        ),
    )
    period_s = throttle.rate_period_in_second
    lines = [
        line_of(about, Rate(calls=calls or -1, bytes=size or -1, period_s=period_s))
        for about, calls, size in defaults
        if calls or size
    ]
    if not lines and not throttle.rates:
        return ()
    return (*lines, *throttle.rates, *(f"exempt {method}" for method in throttle.exempt))
