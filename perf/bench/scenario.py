"""Scenarios: what a suite runs, read from TOML.

about = "..."                  one line, for `faircall bench list`
kind = "load"                  or "micro": operations in this process, no server
seconds, warm-up-s, timeout-s, repeats, framing ("lines" or "http")
require = ["light p99 ms <= 20"]
[matrix]                       every combination is a case; "$queue" stands for its value
queue = ["fifo", "fair"]
[values]                       other names for "$name", one value each (browsers: --browsers)
[settings.fifo]                settings of servers, by a name
[server]                       handlers, service, settings (a table, or such a name)
[[groups]]                     name, user, users, connections, depth, rate, rate-of-capacity,
                               starts-s, window-s, page
[[groups.calls]]               method, params or payload-bytes, weight, name
[calls]                        lists of calls by a name, which may stand for the calls of a group
[capacity]                     a closed loop (as a group) whose rate is measured once a server
[bare]                         turns, processes: the work of the calls without a server, beside it
[knee]                         over, figure, times, achieved: see `specs.KneeSpec`
[grid]                         rows, columns, figures: variables of the matrix; tables of figures
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .plan import MAX_DEPTH
from .specs import CaseSpec, GridSpec, GroupSpec, KneeSpec

FOLDER = Path(__file__).parent.parent / "scenarios"
TABLES = ("matrix", "values", "settings", "calls")  # they say what stands in the rest
BROWSERS = "browsers"


class ScenarioError(Exception):
    """A scenario that cannot be run; the message names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class Case:
    """`labels`: the value of each variable of the matrix, by which results are compared."""

    labels: Mapping[str, str | int | float]
    spec: CaseSpec


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    kind: str
    require: Sequence[str]
    cases: Sequence[Case]
    repeats: int = 1
    knee: KneeSpec | None = None
    grid: GridSpec | None = None


def names() -> Sequence[str]:
    """The suites that come with faircall."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str, values: Mapping[str, Any] | None = None) -> Scenario:
    """A suite by its name, or a scenario by the path of its file. ScenarioError.

    `values` take the place of those that it has itself.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        return parse(path.read_text(), path.stem, values)
    except OSError:
        known = ", ".join(names())
        raise ScenarioError(f"no suite {name!r}; there are {known}, or name a .toml file") from None


def parse(text: str, name: str, values: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario that a TOML text describes. ScenarioError."""
    try:
        raw = tomllib.loads(text)
        cases = list(_cases(raw, values or {}))
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, KeyError) as error:
        raise ScenarioError(f"scenario {name}: {error}") from None
    for case in cases:
        _check(name, case)
    first = cases[0].spec
    return Scenario(
        name,
        first.about,
        first.kind,
        first.require,
        cases,
        repeats=first.repeats,
        knee=first.knee,
        grid=first.grid,
    )


def one_case(raw: Mapping[str, Any]) -> Case:
    """The case that this describes, without variables. ScenarioError."""
    try:
        return Case({}, msgspec.convert(raw, CaseSpec))
    except msgspec.ValidationError as error:
        raise ScenarioError(str(error)) from None


def _cases(raw: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Case]:
    matrix = msgspec.convert(raw.get("matrix", {}), dict[str, list[str | int | float]])
    values = raw.get("values", {})
    values |= {name: value for name, value in given.items() if name in values}
    rest = {key: value for key, value in raw.items() if key not in TABLES}
    for chosen in itertools.product(*matrix.values()):
        labels = dict(zip(matrix, chosen, strict=True))
        known = {**values, **labels}
        filled = _filled(rest, known)
        server = filled.get("server", {})
        _look_up(server, "settings", raw, known)
        for group in (*filled.get("groups", ()), filled.get("capacity", {})):
            _look_up(group, "calls", raw, known)
        yield Case(labels, msgspec.convert(filled, CaseSpec))


def _look_up(
    owner: dict[str, Any], key: str, raw: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    """What has a name in the place of a table gets the table of that name."""
    name, tables = owner.get(key), raw.get(key, {})
    if isinstance(name, str):
        if name not in tables:
            raise KeyError(f"there is no table [{key}.{name}]")
        owner[key] = _filled(tables[name], known)


def _filled(value: Any, labels: Mapping[str, Any]) -> Any:
    """A copy with the values of variables in place of their names."""
    if isinstance(value, dict):
        return {key: _filled(each, labels) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, labels) for each in value]
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in labels:
            raise KeyError(f"{value} is no variable of [matrix] or [values]")
        return labels[value[1:]]
    return value


def _check(name: str, case: Case) -> None:
    spec = case.spec

    def wrong(what: str) -> ScenarioError:
        return ScenarioError(f"scenario {name}: {what}")

    if spec.kind == "load" and not spec.groups:
        raise wrong("it has no [[groups]], so there is nothing to send")
    if spec.seconds <= 0 or spec.warm_up_s < 0 or spec.repeats < 1:
        raise wrong("`seconds` and `repeats` must be positive, and `warm-up-s` not negative")
    if len({group.name for group in spec.groups}) < len(spec.groups):
        raise wrong("two groups have one name")
    swept = [spec.knee.over] if spec.knee else []
    swept += [spec.grid.rows, spec.grid.columns] if spec.grid else []
    if unknown := set(swept) - set(case.labels):
        raise wrong(f"{unknown.pop()} of [knee] or [grid] is no variable of [matrix]")
    for group in spec.groups:
        if fault := _fault_of(group):
            raise wrong(f"group {group.name} {fault}")
        if group.rate_of_capacity is not None and not spec.capacity:
            raise wrong(f"group {group.name} has rate-of-capacity, and there is no [capacity]")


def _fault_of(group: GroupSpec) -> str:
    if group.connections < 1 or not 1 <= group.depth <= MAX_DEPTH or not group.calls:
        return f"needs connections, calls, and a depth to {MAX_DEPTH}"
    if group.rate < 0 or any(call.weight <= 0 for call in group.calls):
        return "has a rate or weight that is none: a rate is not negative, and a weight is positive"
    if group.users < 1 or (group.users > 1 and not group.user):
        return "has `users`, whose names begin with `user`"
    if group.page and (group.rate or any(call.weight % 1 for call in group.calls)):
        return "is a page: it has no rate, and weights are whole numbers of parts"
    return ""
