"""Log lines: their form, and that nothing a client sends can break it."""

from __future__ import annotations

import enum
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.server.log import Format, LineHandler, Lines, Long, json_line, text_line

EPOCH = 1_767_225_600.0625  # 2026-01-01T00:00:00.062Z


def record(
    event: str, *args: Any, level: int = logging.INFO, error: BaseException | None = None
) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    made = logging.LogRecord("faircall.test", level, __file__, 1, event, args, info)
    made.created = EPOCH
    return made


class Colour(enum.Enum):
    RED = "red"


def test_a_line_is_time_level_event_and_fields() -> None:
    line = text_line(record("handler stopped", {"index": 0, "calls": 500}))
    assert line == "2026-01-01T00:00:00.062Z INFO handler stopped: index=0 calls=500"


def test_an_event_without_fields_ends_with_the_event() -> None:
    assert text_line(record("stopped", {})).endswith(" INFO stopped")
    assert text_line(record("stopped")).endswith(" INFO stopped")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (signal.SIGSEGV, "SIGSEGV"),
        (Colour.RED, "RED"),
        ("resize", '"resize"'),
        ("", '""'),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        ((8, 4, 2, 1), "[8,4,2,1]"),
        ("größe", '"größe"'),
        ("a b=c", '"a b=c"'),
        ("a\nb\x1b[2J", '"a\\nb\\u001b[2J"'),
        ("\x9b31m\u202e\u2028", '"\\u009b31m\\u202e\\u2028"'),
        ("\udc80", '"\\udc80"'),
        (ValueError("x"), '"x"'),
    ],
)
def test_values_are_words_numbers_or_json(value: object, text: str) -> None:
    assert text_line(record("event", {"key": value})).endswith(f" event: key={text}")


def test_text_is_cut_to_200_characters_but_for_stacks() -> None:
    line = text_line(record("event", {"short": "x" * 300, "long": Long("y" * 300)}))
    assert line.count("x") == 200
    assert line.count("y") == 300


def test_json_holds_the_same() -> None:
    line = json_line(record("died", {"index": 0, "signal": signal.SIGKILL, "user": "a\nb"}))
    assert json.loads(line) == {
        "time": "2026-01-01T00:00:00.062Z",
        "severity": "info",
        "event": "died",
        "index": 0,
        "signal": "SIGKILL",
        "user": "a\nb",
    }
    assert "\n" not in line


def logged(line_of: Callable[[logging.LogRecord], str], message: str) -> str:
    try:
        raise ValueError(message)
    except ValueError as error:
        return line_of(record("method raised", {"index": 1}, error=error))


def test_in_json_a_traceback_is_one_more_field_of_the_same_line() -> None:
    line = logged(json_line, "no\nway")
    assert "\n" not in line
    assert "ValueError: no\\nway" in line
    assert "test_log.py" in json.loads(line)["traceback"]


def test_in_text_the_lines_of_a_traceback_follow_and_are_indented() -> None:
    first, *rest = logged(text_line, "no\n2026-01-01 INFO ready\r\x1b[2J\u2028").split("\n")
    assert first.endswith(" INFO method raised: index=1")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[1].startswith('      File "')
    assert rest[-2:] == [
        "    ValueError: no",
        "    2026-01-01 INFO ready\\u000d\\u001b[2J\\u2028",
    ]


def test_a_stack_follows_too_and_an_empty_one_is_a_field() -> None:
    line = text_line(record("handler hung", {"stack": Lines("File a\nFile b"), "late_ms": 5}))
    assert line.endswith(" handler hung: late_ms=5\n    File a\n    File b")
    assert text_line(record("hung", {"stack": Lines("x")})).endswith(" hung\n    x")
    assert text_line(record("hung", {"stack": Lines()})).endswith(' hung: stack=""')


@given(st.text())
def test_no_line_of_a_stack_can_be_taken_for_an_event(text: str) -> None:
    first, *rest = text_line(record("hung", {"stack": Lines(text)})).splitlines()
    assert first.startswith("2026-01-01T00:00:00.062Z INFO hung")
    for line in rest:
        assert line.startswith("    ")
        assert all(ord(character) >= 32 for character in line)


def test_messages_of_other_libraries_are_taken_as_they_are() -> None:
    assert text_line(record("took %d ms\nand %s", 5, "on")).endswith(" took 5 ms\\u000aand on")
    assert "100 %" in text_line(record("100 % of %s", 1))


@given(st.text(), st.text())
def test_whatever_the_text_a_record_is_one_printable_line(event: str, value: str) -> None:
    for line in (text_line(record(event, {"key": value})), json_line(record(event, {"k": value}))):
        assert all(ord(character) >= 32 for character in line)
        assert len(line.splitlines()) == 1
        line.encode()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("format", ["text", "json"])
def test_each_line_is_one_write(
    format: Format, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr("faircall.server.log.os.write", lambda fd, data: writes.append(data))
    LineHandler(format, pipe[1]).handle(record("event", {"a": 1}))
    assert [data.count(b"\n") for data in writes] == [1]


def test_a_closed_standard_error_stops_nobody() -> None:
    read, write = os.pipe()
    os.close(read)
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        LineHandler("text", write).handle(record("event", {}))
    finally:
        signal.signal(signal.SIGPIPE, before)
        os.close(write)


def test_setting_up_replaces_what_was_there() -> None:
    program = (
        "import logging, warnings\n"
        "from faircall.server.log import setup_logging\n"
        "setup_logging('text', 'debug'); setup_logging('json', 'warning')\n"
        "logging.getLogger('faircall.x').info('no'); logging.getLogger('lib').warning('yes')\n"
        "warnings.warn('careful', stacklevel=1)\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events[0] == "yes"
    assert "careful" in events[1]
    assert len(events) == 2
