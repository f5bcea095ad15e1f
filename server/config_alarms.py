"""The settings under `[alarms]`; part of the declarations of `config.py`."""

from __future__ import annotations

from dataclasses import dataclass

from .config_limits import HOUR_MS
from .settings.declaration import integer, ms, setting
from .settings.kinds import FLAG, NUMBER
from .settings.lists import WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """When congestion is told, and to whom."""

    enable: bool = setting(
        FLAG, True, "Look for congestion four times a second while there is traffic.", live=True
    )
    wait_ms: int = ms(
        500,
        "Rule `wait`: 99 of 100 calls waited longer in the queue, or who comes now would. 0: off.",
        0,
        HOUR_MS,
        live=True,
    )
    refusals: int = integer(
        20,
        "Rule `refusals`: so many calls a second are refused for want of room; not those by a"
        " limit. 0: off.",
        0,
        1_000_000,
        unit="calls/s",
        live=True,
    )
    latency_ms: int = ms(
        500,
        "Rule `latency`: 99 of 100 calls of level 0 take longer, while calls wait for a handler."
        " 0: off.",
        0,
        HOUR_MS,
        live=True,
    )
    share: float = setting(
        NUMBER,
        0.75,
        "Rule `share`: one user takes so much of the handlers' time, while calls wait for a handler"
        " and others call, too. 0: off.",
        least=0,
        most=1,
        live=True,
    )
    starved: float = setting(
        NUMBER,
        0.25,
        "Rule `processors`: handlers wait for a processor for so much of the time that calls take,"
        " while other programs take much of all of them. Then times count without that wait. 0:"
        " off.",
        least=0,
        most=1,
        live=True,
    )
    raise_after_ms: int = ms(
        300, "A rule has to hold for so long before its alarm is raised.", 0, HOUR_MS, live=True
    )
    clear_after_ms: int = ms(
        5000,
        "An alarm clears when its figure was under half of the threshold for so long.",
        0,
        HOUR_MS,
        live=True,
    )
    hook: tuple[str, ...] = setting(
        WORDS,
        (),
        "Command that is run when an alarm is raised and when it clears, a list of words, without a"
        " shell; it reads the alarm as JSON from its standard input. Empty: none.",
        live=True,
    )
    hook_timeout_ms: int = ms(
        10_000, "A hook that runs for longer is killed.", 100, HOUR_MS, live=True
    )
