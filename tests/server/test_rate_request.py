"""What an administrator asks of rates, as a line; what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.scheduling.errors import BadValue
from faircall.server.rate_request import line_of_request, subject_of_request


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"level": "server", "calls": 5}, "server: calls=5"),
        ({"level": "service", "service": "s", "handler_s": 1.5}, "service s: handler-ms=1500"),
        (
            {"level": "resource", "resource": "gpu", "methods": ["a", "b"], "running": "1"},
            "resource gpu of a b: running=1",
        ),
        (
            {"level": "method", "method": "m", "bytes": "9", "period_s": 2},
            "method m: bytes=9 period-s=2",
        ),
        ({"level": "method", "calls": "7"}, "each method: calls=7"),
        ({"level": "caller", "method": "m", "calls": 1}, "callers of m: calls=1"),
        ({"level": "caller", "caller": "ann", "calls": 1}, "caller ann: calls=1"),
        (
            {"level": "caller", "method": "m", "caller": "ann", "calls": "blocked"},
            "caller ann of m: block",
        ),
        ({"level": "method", "method": "m", "calls": "none"}, "method m: calls=0"),
        ({"rate": " each caller:  calls=3 "}, "each caller: calls=3"),
        ({"rate": "exempt ping"}, "exempt ping"),
    ],
)
def test_every_level_has_its_line(asked: dict[str, Any], line: str) -> None:
    assert line_of_request(asked) == line


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"level": "methd", "calls": 1}, "level = 'methd': must be one of server, service"),
        ({"calls": 1}, "level = None: must be one of"),
        ({"level": "server", "method": "m", "calls": 1}, "method = 'm' says nothing there"),
        ({"level": "server"}, "no limit is given: say at least one of calls, bytes"),
        ({"level": "server", "calls": "many"}, "calls = 'many': must be a whole number, none or"),
        ({"level": "server", "calls": True}, "calls = True: must be a whole number"),
        ({"level": "server", "calls": 1 << 40}, "at most 2147483647 per period"),
        ({"level": "server", "calls": 1, "period_s": 0}, "period_s = 0: must be 1 second or more"),
        ({"level": "server", "handler_s": -1}, "handler_s = -1: must be seconds"),
        ({"level": "server", "cals": 1}, "unknown member 'cals'; known are rate, level"),
        ({"level": "service", "calls": 1}, "level service: say which service"),
        ({"level": "caller", "calls": 1}, "say which method, which caller or both"),
        ({"level": "method", "method": "a b", "calls": 1}, "method = 'a b': must be a name"),
        ({"level": "resource", "resource": "r", "calls": 1}, "methods must list the methods"),
        ({"rate": "metod a: calls=1"}, "is about nothing that has a rate"),
        ({"rate": "server: calls=1", "calls": 2}, "rate stands alone: calls cannot stand beside"),
        ({"rate": 5}, "rate = 5: must be a line"),
        ({"rate": f"method {'m' * 3000}: calls=1"}, "a rate of 3016 characters: at most 2000"),
    ],
)
def test_what_is_wrong_is_named(asked: dict[str, Any], what: str) -> None:
    with pytest.raises(BadValue, match=what.replace("(", r"\(")):
        line_of_request(asked)


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ({"level": "server"}, "server"),
        ({"level": "resource", "resource": "gpu"}, "resource gpu"),
        ({"level": "caller", "method": "m", "caller": "ann"}, "caller ann of m"),
        ({"rate": "each caller: calls=3"}, "each caller"),
        ({"rate": "resource gpu of a b: running=1"}, "resource gpu"),
        ({"rate": "exempt ping"}, "exempt ping"),
    ],
)
def test_what_is_removed_is_named_in_the_same_way(asked: dict[str, Any], subject: str) -> None:
    assert subject_of_request(asked) == subject


def test_no_limit_can_be_given_with_what_is_removed() -> None:
    with pytest.raises(BadValue, match="unknown member 'calls'"):
        subject_of_request({"level": "server", "calls": 1})
    with pytest.raises(BadValue, match="is about nothing"):
        subject_of_request({"rate": "metod a"})
