"""The heap of a test runner, which is no handler's own.

A handler's start collects all garbage and freezes what is left: for the whole of a test runner,
with thousands of tests in it, that takes longer than most tests do.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def left_alone() -> Iterator[None]:
    """In the block `gc.collect` and `gc.freeze` do nothing."""
    with mock.patch.multiple(gc, collect=_nothing, freeze=_nothing):
        yield


def settle() -> None:
    """What is there now stays to the end: no later collection looks at it."""
    gc.collect()
    gc.freeze()


def _nothing() -> None:
    pass
