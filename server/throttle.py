"""The settings under `[throttle]` as switches and lines of rates, which `limits` puts in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..scheduling.dispatch_lines import line_of
from ..scheduling.dispatch_policies import Rate
from ..shm.shared import Shared
from .limits import Switches
from .rates_in_force import put_in_force

if TYPE_CHECKING:
    from .config import Settings
    from .config_throttle import Throttle

SET = "set"


def switches_of(throttle: Throttle) -> Switches:
    """What holds for all limits."""
    return Switches(
        counted_bytes=throttle.count_bytes_of,
        paced=throttle.paced,
        dry_run=throttle.dry_run,
        batches=throttle.dispatch_throttling_on_batch_message_enabled,
        per_process=throttle.scope == "per_process",
        backlog_only=not throttle.dispatch_throttling_on_non_backlog_consumer_enabled,
        charge_dropped=throttle.dispatch_throttling_for_filtered_entries_enabled,
        most_callers=throttle.max_callers,
    )


def follow_settings(shared: Shared, settings: Settings, now_ns: int) -> None:
    """The rates of `settings` from now on; a second time changes nothing. BadValue, RatesTooLong.

    Where there never was a rate nothing is stored, and so nobody looks any up.
    """
    lines = lines_of(settings.throttle, settings.set_rates.lines)
    if lines or shared.segment.q[shared.rates.version_word]:
        put_in_force(shared, switches_of(settings.throttle), lines, now_ns)


def lines_of(throttle: Throttle, set_lines: Sequence[str] = ()) -> tuple[str, ...]:
    """All limits, a line each, those that an administrator has set last; none: nothing is
    throttled."""
    lines = [line for line, _ in sourced_lines(throttle, set_lines)]
    return tuple(lines) if any(not line.startswith("exempt ") for line in lines) else ()


def sourced_lines(throttle: Throttle, set_lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All lines, with where each comes from: a key, or SET."""
    defaults = {"server": "", "each method": "method-", "callers of each method": "caller-"}
    for about, prefix in defaults.items():
        calls, size = (_default(throttle, prefix + what) for what in ("calls", "bytes"))
        if calls or size:
            period_s = throttle.rate_period_in_second
            relative = bool(prefix) and throttle.dispatch_throttling_rate_relative_to_publish_rate
            rate = Rate(calls=calls or -1, bytes=size or -1, period_s=period_s, relative=relative)
            yield line_of(about, rate), f"throttle.{prefix}{'calls' if calls else 'bytes'}"
    for line in throttle.rates:
        yield line, "throttle.rates"
    for method in throttle.exempt:
        yield f"exempt {method}", "throttle.exempt"
    for line in set_lines:
        yield line, SET


def _default(throttle: Throttle, alias: str) -> int:
    """The value of the key with this plain name."""
    limits = {
        "calls": throttle.dispatch_throttling_rate_in_msg,
        "bytes": throttle.dispatch_throttling_rate_in_byte,
        "method-calls": throttle.dispatch_throttling_rate_per_topic_in_msg,
        "method-bytes": throttle.dispatch_throttling_rate_per_topic_in_byte,
        "caller-calls": throttle.dispatch_throttling_rate_per_subscription_in_msg,
        "caller-bytes": throttle.dispatch_throttling_rate_per_subscription_in_byte,
    }
    return limits[alias]
