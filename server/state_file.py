"""The file that keeps the rates which an administrator has set (`throttle.state-file`).

One JSON object, written beside it and renamed: whoever dies meanwhile leaves the one before.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..scheduling.dispatch_lines import policies_of
from ..scheduling.errors import BadValue
from .set_rates import SetRates

FORMAT = 1


class StateFileUnusable(ValueError):
    """The message names the file, what is wrong with it, and what to do."""


def read_state(path: str) -> SetRates:
    """What it keeps; nothing, if there is none yet. StateFileUnusable."""
    if not path:
        return SetRates()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return SetRates()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, f"cannot be read: {error}") from None
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise _unusable(path, f"is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _unusable(path, f'has no "format": {FORMAT}')
    version, rates = found.get("version"), found.get("rates")
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise _unusable(path, f'"version" is {version!r}, no number')
    if not isinstance(rates, list) or not all(isinstance(line, str) for line in rates):
        raise _unusable(path, '"rates" is no list of lines')
    try:
        policies_of(rates)
    except BadValue as error:
        raise _unusable(path, f"has a line that is no rate: {error}") from None
    return SetRates(version, tuple(rates))


def write_state(path: str, rates: SetRates) -> None:
    """Keep `rates`, whole or not at all; OSError."""
    place = Path(path).absolute()
    new = place.with_name(place.name + ".new")
    text = {"format": FORMAT, "version": rates.version, "rates": rates.lines}
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(json.dumps(text, indent=1) + "\n")
        file.flush()
        os.fsync(fd)
    os.replace(new, place)  # <- kept
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unusable(path: str, what: str) -> StateFileUnusable:
    text = f"throttle.state-file = {path!r} {what}; mend it, or move it away to start without"
    return StateFileUnusable(text)
