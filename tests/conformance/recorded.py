"""The recorded cases: where they are, how they are read, and how an answer is compared.

The folder named by FAIRCALL_GOLDEN (by default the project's own copy) holds one folder per suite:
`hadoop/`, cases recorded from the classes of Apache Hadoop; its README says what the fields mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).parent / "golden"
GOLDEN = Path(os.environ.get("FAIRCALL_GOLDEN") or OWN)


@dataclass(frozen=True)
class Case:
    """One recorded case: `component` is the file's, `fields` are the case's own."""

    component: str
    name: str
    fields: Mapping[str, Any]

    def values(self, namespace: str) -> dict[str, str]:
        """The configuration of the case: `conf` under `namespace`, and `global_conf` as it is."""
        own = {f"{namespace}.{key}": value for key, value in self.fields.get("conf", {}).items()}
        everyones = self.fields.get("global_conf", {})
        return own | {key.replace("$NS", namespace): text for key, text in everyones.items()}


@dataclass(frozen=True)
class Mismatch:
    """A step whose answer is not the recorded one; `op` is "construct" before the first step."""

    step: int
    op: str
    recorded: object
    answered: object


def cases(suite: str, file: str, folder: Path = GOLDEN) -> list[Case]:
    """The cases of `<suite>/<file>` in `folder`, none if it is not there."""
    path = folder / suite / file
    if not path.exists():
        return []
    recorded = json.loads(path.read_text(encoding="utf-8"))
    return [Case(recorded["component"], case["name"], case) for case in recorded["cases"]]


def parameters(suite: str, file: str) -> pytest.MarkDecorator:
    """Runs a test once for each case of a file."""
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name) for case in cases(suite, file)]
    )


def same(recorded: object, answered: object) -> bool:
    """Numbers by value, truth values only with truth values, everything inside likewise."""
    if isinstance(recorded, bool) or isinstance(answered, bool):
        return recorded is answered
    if isinstance(recorded, Mapping) and isinstance(answered, Mapping):
        return recorded.keys() == answered.keys() and all(
            same(recorded[key], answered[key]) for key in recorded
        )
    if isinstance(recorded, list) and isinstance(answered, list):
        return len(recorded) == len(answered) and all(map(same, recorded, answered))
    return recorded == answered


def replay(
    case: Case, build: Callable[[], object], answer: Callable[[Callable[[], object]], object]
) -> list[Mismatch]:
    """Builds a subject and runs the steps of `case` on it, each by the method of its name.

    `answer` calls what it is given and turns what that raises into the recorded form of an error.
    """
    subject: list[object] = []
    built = answer(lambda: subject.append(build()))
    construct = case.fields.get("expect_construct")
    if not subject or construct is not None:
        return list(_different(0, "construct", {"expect": construct}, built))
    found: list[Mismatch] = []
    for number, step in enumerate(case.fields.get("steps", []), start=1):
        found.extend(_different(number, step["op"], step, answer(partial(_ask, subject[0], step))))
    return found


def _ask(subject: object, step: Mapping[str, Any]) -> object:
    return getattr(subject, step["op"])(step)


def _different(
    number: int, op: str, step: Mapping[str, Any], answered: object
) -> Iterable[Mismatch]:
    if not same(step.get("expect"), answered):
        yield Mismatch(number, op, step.get("expect"), answered)
