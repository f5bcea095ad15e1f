"""What an administrator asks of rates, as a line of rates; BadValue says what is wrong with it.

    level      needs            the line is about
    server                      the whole server
    service    service          what the methods of a service share
    resource   resource         what `methods` share
    method     method, if any   that method; else each method
    caller     method, caller   a caller of a method, the callers of a method, or a caller over all

`rate` is the line itself, for whatever else a line can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..scheduling.dispatch_lines import is_subject, line_of, normal, policies_of, subject_of
from ..scheduling.dispatch_policies import Rate
from ..scheduling.errors import BadValue

LEVELS = ("server", "service", "resource", "method", "caller")
NAMES = ("service", "resource", "method", "caller")
NUMBERS = ("bytes", "running", "period_s", "max_debt_periods")
LIMITS = ("calls", "bytes", "handler_s", "running")
FLAGS = ("relative",)
ABOUT = ("rate", "level", "methods", *NAMES)
KNOWN = (*ABOUT, *LIMITS, "period_s", "max_debt_periods", *FLAGS)
LONGEST_CHARS = 2000  # of a line: an order is one message of a channel
NO_LIMIT, BLOCKED = "none", "blocked"


def line_of_request(asked: Mapping[str, Any]) -> str:
    """The line that is to be set."""
    check_known(asked, KNOWN)
    line = _whole_line(asked) if "rate" in asked else line_of(_subject(asked), _rate(asked))
    if len(line) > LONGEST_CHARS:
        raise BadValue(f"a rate of {len(line)} characters: at most {LONGEST_CHARS}")
    policies_of([line])
    return line


def subject_of_request(asked: Mapping[str, Any]) -> str:
    """What a rate is to be removed of."""
    check_known(asked, ABOUT)
    if "rate" not in asked:
        return subject_of(_subject(asked, with_methods=False))
    subject = subject_of(_whole_line(asked))
    if not is_subject(subject):
        raise BadValue(f"rate = {asked['rate']!r}: is about nothing that has a rate")
    return subject


def check_known(asked: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """BadValue for what nobody knows."""
    for name in asked:
        if name not in known:
            raise BadValue(f"unknown member {name!r}; known are {', '.join(known)}")


def name_of(asked: Mapping[str, Any], member: str) -> str:
    """A name, which has no spaces."""
    value = asked[member]
    if not isinstance(value, str) or not value or len(value.split()) != 1:
        raise BadValue(f"{member} = {value!r}: must be a name without spaces")
    return value


def _whole_line(asked: Mapping[str, Any]) -> str:
    if more := [name for name in asked if name != "rate"]:
        raise BadValue(f"rate stands alone: {', '.join(more)} cannot stand beside it")
    if not isinstance(asked["rate"], str):
        raise BadValue(f"rate = {asked['rate']!r}: must be a line, as 'method resize: calls=10'")
    return normal(asked["rate"])


def _subject(asked: Mapping[str, Any], *, with_methods: bool = True) -> str:
    level = asked.get("level")
    if level not in LEVELS:
        raise BadValue(f"level = {level!r}: must be one of {', '.join(LEVELS)}")
    names = {member: name_of(asked, member) for member in NAMES if asked.get(member) is not None}
    wanted = {"server": (), "caller": ("method", "caller")}.get(level, (level,))
    if wrong := [member for member in names if member not in wanted]:
        raise BadValue(f"level {level}: {wrong[0]} = {names[wrong[0]]!r} says nothing there")
    if level == "server":
        return "server"
    if level == "method":
        return f"method {names['method']}" if names else "each method"
    if level == "caller":
        return _caller(names)
    if level not in names:
        raise BadValue(f"level {level}: say which {level}")
    if level == "resource" and with_methods:
        return f"resource {names[level]} of {' '.join(_methods(asked))}"
    return f"{level} {names[level]}"


def _caller(names: Mapping[str, str]) -> str:
    method, caller = names.get("method"), names.get("caller")
    if method and caller:
        return f"caller {caller} of {method}"
    if method:
        return f"callers of {method}"
    if caller:
        return f"caller {caller}"
    raise BadValue(
        "level caller: say which method, which caller or both; for all of them write the line:"
        " 'callers of each method: calls=10' or 'each caller: calls=10'"
    )


def _methods(asked: Mapping[str, Any]) -> list[str]:
    methods = asked.get("methods")
    if not isinstance(methods, list | tuple) or not methods:
        raise BadValue("level resource: methods must list the methods that share it")
    return [name_of({"methods": method}, "methods") for method in methods]


def _rate(asked: Mapping[str, Any]) -> Rate:
    if not any(asked.get(name) is not None for name in LIMITS):
        raise BadValue(f"no limit is given: say at least one of {', '.join(LIMITS)}")
    values: dict[str, Any] = {
        name: _number(name, asked[name]) for name in NUMBERS if asked.get(name) is not None
    }
    calls = asked.get("calls")
    if calls == BLOCKED:
        values["block"] = True
    elif calls is not None and calls != NO_LIMIT:
        values["calls"] = _number("calls", calls)
    if (seconds := asked.get("handler_s")) is not None:
        values["handler_ms"] = _milliseconds(seconds)
    for flag in FLAGS:
        if asked.get(flag):
            values[flag] = True
    return Rate(**values)


def _number(name: str, value: object) -> int:
    """A whole number; as a text, too, as a command line has it."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(value)
        return int(value)
    except ValueError:
        words = f", {NO_LIMIT} or {BLOCKED}" if name == "calls" else ""
        raise BadValue(f"{name} = {value!r}: must be a whole number{words}") from None


def _milliseconds(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e9:
        raise BadValue(f"handler_s = {seconds!r}: must be seconds of handlers, above 0")
    return max(1, round(seconds * 1000))
