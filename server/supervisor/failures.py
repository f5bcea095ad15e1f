"""Why a daemon does not start, in words for its operator."""

from __future__ import annotations

import traceback

CANNOT_START = 2  # exit status, that of a usage or configuration error
CUT_OFF = 1  # exit status: a signal stopped the daemon at once, in the middle of calls


class CannotStart(Exception):
    """The operator has to change something; the message is one sentence that says what."""


def one_line(error: BaseException) -> str:
    """`TypeName: message` without line ends."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def place_of(error: BaseException) -> str:
    """`file:line` of where it was raised; "no place" if it was not."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "no place"
