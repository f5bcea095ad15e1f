"""The settings under `[throttle]`; part of the declarations of `config.py`.

The keys are Pulsar's (`broker.conf`), written with `-`; `alias` is the plain name. What one method,
caller, service or resource may use stands in `rates`, in lines of `scheduling.dispatch_lines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..scheduling.dispatch_rate import MOST_LIMIT
from .settings.declaration import integer, setting
from .settings.kinds import FLAG, NUMBER, TEXT, choice
from .settings.lists import NAMES
from .settings.rates import RATE_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Budgets of what is dispatched to handlers; a limit of 0 is none."""

    dispatch_throttling_rate_in_msg: int = integer(
        0, "Calls per period of the whole server.", 0, MOST_LIMIT, alias="calls", live=True
    )
    dispatch_throttling_rate_in_byte: int = integer(
        0, "Bytes per period of the whole server.", 0, MOST_LIMIT, alias="bytes", live=True
    )
    dispatch_throttling_rate_per_topic_in_msg: int = integer(
        0, "Calls per period of each method.", 0, MOST_LIMIT, alias="method-calls", live=True
    )
    dispatch_throttling_rate_per_topic_in_byte: int = integer(
        0, "Bytes per period of each method.", 0, MOST_LIMIT, alias="method-bytes", live=True
    )
    dispatch_throttling_rate_per_subscription_in_msg: int = integer(
        0,
        "Calls per period of each caller of each method.",
        0,
        MOST_LIMIT,
        alias="caller-calls",
        live=True,
    )
    dispatch_throttling_rate_per_subscription_in_byte: int = integer(
        0,
        "Bytes per period of each caller of each method.",
        0,
        MOST_LIMIT,
        alias="caller-bytes",
        live=True,
    )
    rate_period_in_second: int = integer(
        1,
        "Length of a period of the limits above.",
        1,
        86_400,
        unit="s",
        alias="period-s",
        live=True,
    )
    dispatch_throttling_rate_relative_to_publish_rate: bool = setting(
        FLAG,
        False,
        "The limits of each method, and of each caller of it, are added to the average arrivals of"
        " the method: so much more than arrives goes, for whoever catches up.",
        alias="relative-to-arrival-rate",
        live=True,
    )
    rates: tuple[str, ...] = setting(
        RATE_LINES,
        (),
        "Limits of one service, method, caller or resource, a line each; docs/pulsar.md has the"
        " grammar. They go before the limits above.",
        live=True,
    )
    exempt: tuple[str, ...] = setting(NAMES, (), "Methods without any limit.", live=True)
    count_bytes_of: Literal["request", "answer", "both"] = setting(
        choice("request", "answer", "both"),
        "request",
        "Whose bytes the limits of bytes count.",
        live=True,
    )
    paced: bool = setting(
        FLAG,
        False,
        "Spread a period's calls over it, instead of as soon as it begins: the same totals.",
        live=True,
    )
    dry_run: bool = setting(
        FLAG,
        False,
        "Count what the limits would hold, in `faircall stats`, and hold nothing.",
        live=True,
    )
    dispatch_throttling_on_batch_message_enabled: bool = setting(
        FLAG,
        False,
        "A JSON-RPC batch counts as one call for each of its methods.",
        alias="batches",
        live=True,
    )
    dispatch_throttling_on_non_backlog_consumer_enabled: bool = setting(
        FLAG,
        True,
        "Callers without a backlog are limited, too. Off: a call is neither held, refused nor"
        " charged while it is the only one of its caller and method that waits.",
        alias="limit-without-backlog",
        live=True,
    )
    dispatch_throttling_for_filtered_entries_enabled: bool = setting(
        FLAG,
        False,
        "Calls that are dropped while they wait (expired, cancelled, disconnected) are charged,"
        " too, with the bytes of their requests.",
        alias="charge-dropped",
        live=True,
    )
    dispatcher_max_read_batch_size: int = integer(
        0, "Accepted for Pulsar's sake, and always 0: there are no bulk reads.", 0, MOST_LIMIT
    )
    scope: Literal["server", "per_process"] = setting(
        choice("server", "per_process"),
        "server",
        "Whose the budgets are: one for the whole server, or one of each reader process and its"
        " connections, as each of Pulsar's brokers has.",
    )
    precise_dispatcher_flow_control: bool = setting(
        FLAG,
        False,
        "Accepted for Pulsar's sake, and always so: every call is charged before it is dispatched."
        " As in Pulsar, not together with the key above.",
        alias="precise",
        live=True,
    )
    max_held_share: float = setting(
        NUMBER,
        0.5,
        "Share of each level's capacity that calls which wait for a limiter may take; a caller may"
        " have as many as are left then. The rest is refused at once (`throttled`), so that a flood"
        " of a limited method leaves room for calls of others. 1: no bound.",
        above=0,
        most=1,
        live=True,
    )
    state_file: str = setting(
        TEXT,
        "",
        "Keeps what `faircall throttle set` has set over a restart; without one it is forgotten.",
    )
    max_callers: int = integer(
        1024,
        "Callers, and pairs of method and caller, with counters of their own; those who find no"
        " room share one per method.",
        16,
        60_000,
    )
