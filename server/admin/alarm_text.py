"""Alarms for people: each a sentence, and below it the commands that restore service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...scheduling.alarms import Rule
from ..log import escape

INDENT = "  "
_WHAT = {
    Rule.WAIT: "calls wait too long",
    Rule.REFUSALS: "calls are refused",
    Rule.LATENCY: "calls of level 0 take too long",
    Rule.SHARE: "one user takes most of the handlers' time, and calls wait",
    Rule.PROCESSORS: "calls take too long, for the machine is short of processors",
}


def alarm_lines(alarms: Sequence[Mapping[str, Any]], none: str = "") -> Iterator[str]:
    """The lines; `none` where there is no alarm. Commands that several alarms have stand once."""
    if not alarms:
        if none:
            yield none
        return
    yield from (escape(f"ALARM {alarm['text']}") for alarm in alarms)
    commands = dict.fromkeys(command for alarm in alarms for command in alarm["commands"])
    if commands:
        yield "to restore service, one after the other as far as it takes:"
        yield from (escape(f"{INDENT}{command}") for command in commands)


def sentence(alarm: Mapping[str, Any]) -> str:
    """What the members of an alarm say."""
    rule, user = Rule(alarm["rule"]), alarm["user"]
    text = f"port {alarm['port']}" + (f", group {alarm['group']}" if alarm["group"] else "")
    text += f": {_WHAT[rule]} (rule {rule.value}), for {alarm['since_s']:.1f} s"
    if user:
        text += f"; {user} takes {alarm['share']:.0%}, mostly {alarm['method'] or 'one method'}"
        text += f" of {alarm['job']}" if alarm["job"] else ""
        text += f" from {alarm['address']}" if alarm["address"] else ""
    elif rule is not Rule.PROCESSORS:
        text += "; nobody alone does it"
    if alarm["starved"]:
        text += (
            f"; handlers wait for a processor for {alarm['starved']:.0%} of the time that calls"
            f" take, and other programs take {alarm['outside']:.0%} of all processors"
        )
    return text
