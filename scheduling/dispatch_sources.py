"""Which lines of rates may be in force for a call, by level, first match first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .dispatch_lines import rate_of, subject_of
from .dispatch_policies import service_of


def subjects_of(level: str, method: str, caller: str) -> list[str]:
    """What a line may be about that is in force at `level` for a caller of a method."""
    service = service_of(method)
    return {
        "server": ["server"],
        "service": [f"service {service}"],
        "method": [f"method {method}", f"methods of {service}", "each method"],
        "caller": [f"caller {caller}", "each caller"],
        "caller of method": [
            f"caller {caller} of {method}",
            f"callers of {method}",
            f"callers of service {service}",
            "callers of each method",
        ],
    }[level]


def line_in_force(lines: Mapping[str, str], subjects: Iterable[str]) -> str | None:
    """The first line that limits anything; `lines` maps subjects to lines."""
    for subject in subjects:
        line = lines.get(subject)
        if line is not None and rate_of(line).limits_anything:
            return line
    return None


def by_subject(lines: Iterable[str]) -> dict[str, str]:
    """The lines that count: the last one about each subject."""
    return {subject_of(line): line for line in lines}
