"""Why a daemon does not start."""

from __future__ import annotations

CANNOT_START = 2  # exit status, that of a usage or configuration error


class CannotStart(Exception):
    """The operator has to change something; the message is one sentence that says what."""


def one_line(error: BaseException) -> str:
    """`TypeName: message` without line ends."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
