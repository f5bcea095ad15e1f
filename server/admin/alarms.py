"""Alarms of all ports: raised and cleared by `scheduling.alarms`, told to whoever wants to know.

    log       one line at each, `alarm raised` and `alarm cleared`
    stats     `alarms` of faircall.stats, while they are active; `faircall stats --check`
    metrics   faircall_alarm, faircall_alarms
    hook      alarms.hook, with what stats shows as JSON on its standard input

Who does it is looked for as long as the rule holds, and kept until the alarm clears: so it is named
rightly even where the first moment named another.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ...scheduling import overload
from ...scheduling.alarms import PLENTY, Change, Rule, Thresholds, Watch, is_short, levels_of
from ..log import Long
from .alarm_commands import commands_for
from .alarm_text import sentence
from .hooks import Hooks
from .pressure import Moment, Pressure
from .processor_use import ProcessorUse

if TYPE_CHECKING:
    from ..config_alarms import Alarms as AlarmSettings
    from ..port import Port

log = logging.getLogger("faircall.admin")

NAMES_KEPT = 64  # users of whom it is known how they called when they were first named
IDLE_S, LOOK_S, PENDING_S = 0.5, 0.25, 0.1
ALWAYS = ("rule", "port", "user", "share", "job", "method", "address")
TOLD = ("rule", "port", "group", *ALWAYS[2:], "starved", "outside")


@dataclass(frozen=True, slots=True)
class Named:
    """Who is named, and what an operator can do; all "" where nobody alone does it. `group` is that
    of the handlers, where there are several; `starved` and `outside` are 0 where the machine is not
    short of processors."""

    group: str = ""
    starved: float = 0.0
    outside: float = 0.0
    user: str = ""
    share: float = 0.0
    job: str = ""
    method: str = ""
    address: str = ""
    commands: tuple[str, ...] = ()


class _OfPort:
    def __init__(self, port: Port, now_ns: int) -> None:
        self.port, self.pressure = port, Pressure(port, now_ns)
        self.watches = {rule: Watch() for rule in Rule}
        self.named: dict[Rule, Named] = {}
        self.raised = dict.fromkeys(Rule, 0)
        self.first_calls_per_s: dict[str, float] = {}  # by user; the oldest first

    def with_commands(self, named: Named, calls_per_s: float, socket: str) -> Named:
        """By the calls that the user made when it was first named since alarms of this port are
        active: a limit that is typed is not told anew, lower by what it keeps away."""
        if not named.user:
            return named
        if named.user not in self.first_calls_per_s and len(self.first_calls_per_s) >= NAMES_KEPT:
            self.first_calls_per_s.pop(next(iter(self.first_calls_per_s)))
        first = self.first_calls_per_s.setdefault(named.user, calls_per_s)
        about = named.user, named.job, named.method
        return replace(named, commands=commands_for(*about, first, socket))

    @property
    def is_active(self) -> bool:
        return any(watch.active for watch in self.watches.values())

    @property
    def is_pending(self) -> bool:
        return any(watch.since_ns and not watch.active for watch in self.watches.values())


class Alarms:
    """`look` says when to look again; its settings may change between two looks."""

    def __init__(self, ports: Sequence[Port], now_ns: int) -> None:
        self._ports = [_OfPort(port, now_ns) for port in ports]
        self._processors = ProcessorUse(ports)
        self._hooks = Hooks()

    def look(self, now_ns: int) -> float:
        """In how many seconds it should be looked again: soon while there is traffic or an alarm
        is active, sooner while a rule holds and its alarm is to be raised."""
        next_s = IDLE_S
        if any(each.port.settings.alarms.enable for each in self._ports):
            self._processors.look(now_ns)
        for each in self._ports:
            settings = each.port.settings.alarms
            if not settings.enable:
                self._end(each, now_ns)
                continue
            if each.is_active or each.pressure.has_traffic():
                next_s = min(next_s, LOOK_S)
            self._look_at(each, now_ns, settings)
            if each.is_pending:
                next_s = PENDING_S
        return next_s

    def active(self, now_ns: int) -> list[dict[str, Any]]:
        """Those of all ports, as plain JSON values."""
        return [
            _shown(each, rule, now_ns)
            for each in self._ports
            for rule, watch in each.watches.items()
            if watch.active
        ]

    def counts(self) -> list[tuple[int, Rule, bool, int]]:
        """Of each port and rule: whether its alarm is active, and how often it was raised."""
        return [
            (each.port.number, rule, watch.active, each.raised[rule])
            for each in self._ports
            for rule, watch in each.watches.items()
        ]

    def close(self) -> None:
        """End the hooks that run."""
        self._hooks.close()

    def _look_at(self, each: _OfPort, now_ns: int, settings: AlarmSettings) -> None:
        thresholds, shared = thresholds_of(settings), each.port.shared
        shortages = [
            self._processors.shortage(each.port, shared.geometry.handlers_of(group))
            for group in range(len(each.pressure.groups))
        ]
        moments = each.pressure.look(now_ns, shortages)
        levels = [levels_of(moment.reading, thresholds) for moment in moments]
        for rule, watch in each.watches.items():
            worst = max(range(len(moments)), key=lambda group: levels[group][rule])
            moment, level = moments[worst], levels[worst][rule]
            change = watch.look(now_ns, level, thresholds)
            if watch.active and level >= 1:
                named = named_of(moment, rule, thresholds)
                if named.user or rule not in each.named:
                    socket = each.port.settings.admin.socket
                    each.named[rule] = each.with_commands(named, moment.calls_per_s, socket)
            if change is Change.RAISED:
                each.raised[rule] += 1
            if change is not None:
                self._tell(each, rule, change, now_ns, moment)
        if not each.is_active:
            each.first_calls_per_s.clear()

    def _end(self, each: _OfPort, now_ns: int) -> None:
        """They were turned off."""
        each.first_calls_per_s.clear()
        for rule, watch in each.watches.items():
            if watch.active:
                each.watches[rule] = Watch()
                each.named.pop(rule, None)
                log.info("alarm cleared", {"rule": rule.value, "port": each.port.number})

    def _tell(self, each: _OfPort, rule: Rule, change: Change, now_ns: int, moment: Moment) -> None:
        raised, reading = change is Change.RAISED, moment.reading
        shown = _shown(each, rule, now_ns)
        fields = {name: shown[name] for name in TOLD if shown[name] or name in ALWAYS}
        if raised:
            figures = {
                "since_s": shown["since_s"],
                "waiting": reading.waiting,
                "expected_wait_ms": round(reading.wait_ns / 1e6, 1),
                "refused_per_s": round(reading.refused_per_s, 1),
                "do": Long("; ".join(shown["commands"][:2])),
            }
            log.warning("alarm raised", fields | figures)
        else:
            log.info("alarm cleared", fields)
            each.named.pop(rule, None)
        settings = each.port.settings.alarms
        if settings.hook:
            about = {"event": "raised" if raised else "cleared", **shown}
            self._hooks.run(settings.hook, about, settings.hook_timeout_ms / 1000)


def thresholds_of(settings: AlarmSettings) -> Thresholds:
    """Those that the settings say."""
    return Thresholds(
        wait_ns=settings.wait_ms * 1e6,
        refused_per_s=settings.refusals,
        latency_ns=settings.latency_ms * 1e6,
        share=settings.share,
        starved=settings.starved,
        raise_after_ns=settings.raise_after_ms * 1_000_000,
        clear_after_ns=settings.clear_after_ms * 1_000_000,
    )


def named_of(moment: Moment, rule: Rule, thresholds: Thresholds) -> Named:
    """The heaviest user, if it takes enough to be a suspect; nobody for want of processors. Its
    commands are yet to be told."""
    suspect, shortage = moment.suspect, moment.reading.shortage
    if not is_short(shortage, thresholds):
        shortage = PLENTY
    of_machine = round(shortage.starved, 2), round(shortage.outside, 2)
    least = overload.least_part(overload.DEFAULT_PART, moment.reading.users)
    if suspect is None or suspect.share < least or rule is Rule.PROCESSORS:
        return Named(moment.group, *of_machine)
    return Named(
        moment.group,
        *of_machine,
        user=suspect.user,
        share=round(suspect.share, 3),
        job=suspect.job,
        method=suspect.method,
        address=suspect.address,
    )


def _shown(each: _OfPort, rule: Rule, now_ns: int) -> dict[str, Any]:
    named, since_ns = each.named.get(rule, Named()), each.watches[rule].since_ns
    about = {"rule": rule.value, "port": each.port.number, **asdict(named)}
    commands = list(about.pop("commands"))
    about["since_s"] = round((now_ns - (since_ns or now_ns)) / 1e9, 1)
    return {**about, "text": sentence(about), "commands": commands}
