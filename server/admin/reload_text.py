"""What a reload has changed, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..log import escape


def reload_lines(changed: Mapping[str, Any], verbose: bool) -> Iterator[str]:
    """The three lists; of the unchanged keys the names only if `verbose`."""
    yield f"applied: {len(changed['applied'])}"
    for each in changed["applied"]:
        yield escape(f"  {each['key']}: {each['old']} -> {each['new']}")
    yield f"unchanged: {changed['unchanged']['count']}"
    for key in changed["unchanged"]["keys"] if verbose else ():
        yield f"  {key}"
    yield f"needs restart: {len(changed['needs_restart'])}"
    for each in changed["needs_restart"]:
        text = f"  {each['key']}: {each['running']} runs, {each['configured']} is configured"
        yield escape(text)
