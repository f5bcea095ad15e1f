"""Rates as lines of text, one for each source of limits: what they are about, then the limits.

    server: calls=500                        the whole server
    service images: handler-ms=2000          what the methods images.* share
    resource gpu of resize blur: running=1   what these methods share
    each method: calls=100                   a template: every method has counters of its own
    methods of images: calls=50              the same for the methods of a service
    method resize: bytes=1000000             one method
    callers of each method: calls=10         every pair of method and caller
    callers of service images: calls=5       the same for the methods of a service
    callers of resize: calls=2               and of one method
    caller ann of resize: calls=20           one caller of a method
    each caller: calls=200                   every caller, over all methods
    caller ann: calls=1000                   one caller, over all methods
    exempt ping                              a method without any limit

The limits are those of `Rate`, with `-` for `_`; `block` and `relative` stand alone. A line about
what another line is about replaces it as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .dispatch_policies import MethodPolicy, Policies, Rate, Resource, Templates
from .errors import BadValue

MOST_RESOURCES = 3  # of one method
_FLAGS = ("block", "relative")


@dataclass
class _Draft:
    server: Rate | None = None
    groups: dict[str, Rate] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    callers: dict[str, Rate] = field(default_factory=dict)
    each_caller: Rate | None = None
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    services: dict[str, dict[str, Rate]] = field(default_factory=dict)
    defaults: dict[str, Rate] = field(default_factory=dict)
    exempt: set[str] = field(default_factory=set)


def _of_method(draft: _Draft, name: str) -> dict[str, Any]:
    return draft.methods.setdefault(name, {"callers": {}})


_Put = Callable[[_Draft, list[str], Rate], None]
_SUBJECTS: tuple[tuple[str, _Put], ...] = (
    (r"server", lambda d, _, rate: setattr(d, "server", rate)),
    (r"service (\S+)", lambda d, of, rate: d.groups.update({of[0]: rate})),
    (
        r"resource (\S+) of (\S.*)",
        lambda d, of, rate: d.resources.update(
            {of[0]: Resource(rate=rate, methods=frozenset(of[1].split()))}
        ),
    ),
    (r"each method", lambda d, _, rate: d.defaults.update(method=rate)),
    (
        r"methods of (\S+)",
        lambda d, of, rate: d.services.setdefault(of[0], {}).update(method=rate),
    ),
    (r"method (\S+)", lambda d, of, rate: _of_method(d, of[0]).update(method=rate)),
    (r"callers of each method", lambda d, _, rate: d.defaults.update(caller=rate)),
    (
        r"callers of service (\S+)",
        lambda d, of, rate: d.services.setdefault(of[0], {}).update(caller=rate),
    ),
    (r"callers of (\S+)", lambda d, of, rate: _of_method(d, of[0]).update(caller=rate)),
    (
        r"caller (\S+) of (\S+)",
        lambda d, of, rate: _of_method(d, of[1])["callers"].update({of[0]: rate}),
    ),
    (r"each caller", lambda d, _, rate: setattr(d, "each_caller", rate)),
    (r"caller (\S+)", lambda d, of, rate: d.callers.update({of[0]: rate})),
)
_WITHOUT_ARRIVALS = (
    r"server",
    r"service (\S+)",
    r"resource (\S+) of (\S.*)",
    r"each caller",
    r"caller (\S+)",
)


def policies_of(lines: Iterable[str]) -> Policies:
    """The sources of limits that `lines` describe; BadValue says which line is wrong, and why."""
    draft = _Draft()
    for line in lines:
        _read(draft, normal(line))
    _check_resources(draft.resources)
    return Policies(
        server=draft.server,
        groups=draft.groups,
        resources=draft.resources,
        callers=draft.callers,
        each_caller=draft.each_caller,
        methods={name: MethodPolicy(**policy) for name, policy in draft.methods.items()},
        services={name: Templates(**policy) for name, policy in draft.services.items()},
        defaults=Templates(**draft.defaults),
        exempt=frozenset(draft.exempt),
    )


def normal(line: str) -> str:
    """A line as it is compared: one space between words."""
    return " ".join(line.split())


def subject_of(line: str) -> str:
    """What a line, or the part before its limits, is about; a resource goes by its name alone."""
    subject = normal(line).partition(": ")[0].removesuffix(":")
    resource = re.fullmatch(r"(resource \S+) of \S.*", subject)
    return resource[1] if resource else subject


def is_subject(text: str) -> bool:
    """Whether a line may be about that, or lift limits of it."""
    named = f"{text} of x" if re.fullmatch(r"resource \S+", text) else text
    patterns = (r"exempt \S+", *(pattern for pattern, _ in _SUBJECTS))
    return any(re.fullmatch(pattern, named) for pattern in patterns)


def rate_of(line: str) -> Rate:
    """The limits of a line that is right; none of an exemption."""
    limits = normal(line).partition(": ")[2]
    return _rate(limits, line)


def line_of(subject: str, rate: Rate) -> str:
    """The line for a rate."""
    fresh = Rate()
    changed = {k: v for k, v in vars(rate).items() if v != getattr(fresh, k)}
    parts = [
        name.replace("_", "-") if value is True else f"{name.replace('_', '-')}={value}"
        for name, value in changed.items()
    ]
    return f"{subject}: {' '.join(parts) or 'calls=0'}"


def _read(draft: _Draft, line: str) -> None:
    if exempt := re.fullmatch(r"exempt (\S+)", line):
        draft.exempt.add(exempt[1])
        return
    subject, colon, limits = line.partition(": ")
    for pattern, put in _SUBJECTS:
        match = re.fullmatch(pattern, subject)
        if match and colon:
            rate = _rate(limits, line)
            if rate.relative and pattern in _WITHOUT_ARRIVALS:
                raise BadValue(
                    f"{line!r}: relative is for a method, and for callers of a method: arrivals are"
                    " counted by method"
                )
            put(draft, list(match.groups()), rate)
            return
    raise BadValue(
        f"{line!r}: is about nothing that has a rate; write `method NAME: calls=10`, or server,"
        " service, resource, each method, methods of, callers of, caller ... of, each caller,"
        " caller, exempt"
    )


def _rate(limits: str, line: str) -> Rate:
    values: dict[str, Any] = {}
    for part in limits.split():
        name, equals, text = part.partition("=")
        field_name = name.replace("-", "_")
        if name in _FLAGS and not equals:
            values[name] = True
        elif re.fullmatch(r"-?[0-9]+", text):
            values[field_name] = int(text)
        else:
            raise BadValue(f"{line!r}: {part!r} is not NAME=NUMBER, {' or '.join(_FLAGS)}")
    return Rate.of(values, repr(line))


def _check_resources(resources: Mapping[str, Resource]) -> None:
    for method in {method for one in resources.values() for method in one.methods}:
        names = [name for name, one in resources.items() if method in one.methods]
        if len(names) > MOST_RESOURCES:
            raise BadValue(
                f"method {method!r} shares {len(names)} resources ({', '.join(names)}): at most"
                f" {MOST_RESOURCES}"
            )
