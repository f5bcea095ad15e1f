"""What the user's code raised, and where, in one line."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final

_LIBRARIES: Final = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
)
_PACKAGES: Final = {"site-packages", "dist-packages"}


def what_was_raised(error: BaseException) -> str:
    """`TypeName: message (file:line)`, without line ends.

    If a library raised it, the user's line that called it is named, too: `(file:line, called from
    file:line)`.
    """
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text} ({_place(error)})"


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    real = [frame for frame in frames if not frame.filename.startswith("<frozen")] or frames
    users = [frame for frame in real if not _is_library(frame.filename)] or real
    shown = f"{real[-1].filename}:{real[-1].lineno}"
    if users[-1] is not real[-1]:
        shown += f", called from {users[-1].filename}:{users[-1].lineno}"
    return shown


def _is_library(filename: str) -> bool:
    path = Path(filename)
    inside = any(path.is_relative_to(folder) for folder in _LIBRARIES)
    return inside or not _PACKAGES.isdisjoint(path.parts)
