"""What a check has found, and how it is told.

ok    processors    2: the CPU affinity mask holds 2
warn  files         1024 open files for up to 5000 connections of each reader
                    -> LimitNOFILE=8192 in the unit, or ulimit -n
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..config import Settings


class State(enum.StrEnum):
    """FAIL: a server will not start, or loses calls."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` is the case, `do` what to do about it; "" where there is nothing to be done."""

    check: str
    state: State
    what: str
    do: str = ""


def ok(check: str, what: str) -> Finding:
    return Finding(check, State.OK, what)


def warn(check: str, what: str, do: str) -> Finding:
    return Finding(check, State.WARN, what, do)


def fail(check: str, what: str, do: str) -> Finding:
    return Finding(check, State.FAIL, what, do)


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at: files below `root`, and the settings of a server."""

    settings: Settings
    root: Path = Path("/")

    def read(self, path: str) -> str:
        """The text of a file, without white space around it; "" if there is none."""
        try:
            return (self.root / path).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def number(self, path: str) -> int | None:
        """The first number of a file; None if it has none."""
        first = self.read(path).split()[:1]
        return int(first[0]) if first and first[0].isdigit() else None


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    for each in findings:
        yield f"{each.state:<4}  {each.check:<12}  {each.what}"
        if each.do:
            yield f"{'':20}-> {each.do}"


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    return [{**asdict(each), "state": str(each.state)} for each in findings]
