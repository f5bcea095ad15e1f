"""The log: an event a line on standard error, as text or as JSON.

    log.info("handler stopped", {"index": 0, "calls": 500})

    2026-01-01T00:00:00.000Z INFO handler stopped: index=0 calls=500
    {"time":"2026-01-01T00:00:00.000Z","severity":"info","event":"handler stopped","index":0, ...}

Lines are an interface: an event is a fixed text, everything that varies is a field. Text values are
JSON strings, cut to 200 characters; a member of an enum is its bare name. Nothing that a client
sent can end a line or reach a terminal: control characters are escaped, in messages of other
libraries too. A traceback or a stack is one more field in JSON; in text it follows the event's
line, every line of it indented, so that none can be taken for an event. Each event is one write, so
that processes that share standard error do not mix theirs.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

STDERR = 2
MAX_TEXT_CHARS = 200
MAX_TRACEBACK_CHARS = 8000
INDENT = "    "

# C0 and C1 controls, line separators, marks that reorder text, lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Format = Literal["text", "json"]


class Long(str):
    """Text that is not cut to 200 characters: why a server does not start."""

    __slots__ = ()


class Lines(Long):
    """Text of many lines: a stack or a traceback."""

    __slots__ = ()


class LineHandler(logging.Handler):
    """Writes each record to a descriptor, at once."""

    def __init__(self, format: Format, fd: int = STDERR) -> None:
        super().__init__()
        self._line = json_line if format == "json" else text_line
        self._fd = fd

    def emit(self, record: logging.LogRecord) -> None:
        line = self._line(record)
        with contextlib.suppress(OSError):  # nobody reads the log: serving goes on
            os.write(self._fd, line.encode() + b"\n")


def setup_logging(format: Format = "text", level: str = "info") -> None:
    """From now on all logging of this process and its children goes to standard error."""
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(LineHandler(format))
    root.setLevel(level.upper())


def text_line(record: logging.LogRecord) -> str:
    """`TIME LEVEL event: key=value ...` and indented lines, if there are any; no end of line."""
    event, fields = event_of(record)
    blocks = {key: text for key, text in fields.items() if isinstance(text, Lines) and text}
    plain = {key: value for key, value in fields.items() if key not in blocks}
    head = f"{_time(record)} {record.levelname} {event}"
    first = f"{head}: {text_fields(plain)}" if plain else head
    return "\n".join([first, *(line for text in blocks.values() for line in _indented(text))])


def text_fields(fields: Mapping[str, Any]) -> str:
    """`key=value key=value`."""
    return " ".join(f"{key}={_text(value)}" for key, value in fields.items())


def json_line(record: logging.LogRecord) -> str:
    """One object: time, severity and event, then the fields."""
    event, fields = event_of(record)
    head = {"time": _time(record), "severity": record.levelname.lower(), "event": event}
    return _json(head | {key: _plain(value) for key, value in fields.items()})


def event_of(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """What happened, and the fields; a record of another library is all text."""
    fields: dict[str, Any] = {}
    if isinstance(record.args, Mapping) or record.args == ({},):
        event = str(record.msg)
        fields.update(record.args if isinstance(record.args, Mapping) else {})
    else:
        event = _message(record)
    if record.exc_info and record.exc_info[1]:
        text = "".join(traceback.format_exception(record.exc_info[1]))
        fields["traceback"] = Lines(text[-MAX_TRACEBACK_CHARS:])
    return escape(event), fields


def escape(text: str) -> str:
    r"""`text` with what a terminal would obey, and what would end the line, as \uXXXX."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _indented(text: str) -> list[str]:
    """Its lines; what else would end a line, or obey a terminal, is escaped."""
    return [INDENT + escape(line) for line in text.rstrip("\n").split("\n")]


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # its arguments do not fit its format
        return f"{record.msg} {record.args!r}"


def _text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    return _json(_plain(value))


def _plain(value: Any) -> Any:
    """What JSON has for `value`."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | Long):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)[:MAX_TEXT_CHARS]


def _json(value: Any) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
