"""What can be wrong with a configuration, and the exceptions of Hadoop that say the same.

    BadValue       IllegalArgumentException: understood, but out of bounds
    NotParseable   NumberFormatException: not understood (in Java, too, a kind of the former)
    UnknownClass   ClassNotFoundException
    NotBuilt       RuntimeException: a class that the configuration names refused; see `__cause__`

All are kinds of ValueError.
"""

from __future__ import annotations


class BadValue(ValueError):
    """A value that is out of its bounds, or does not fit the other values."""


class NotParseable(BadValue):
    """A text that is not a number, or not a duration."""


class UnknownClass(ValueError):
    """A class name that is neither one of ours nor importable."""


class NotBuilt(ValueError):
    """A component that the configuration names could not be built; `__cause__` holds the reason."""
