"""A flat str -> str configuration, seen by the server of one port (`ipc.<port>.*`).

A key is looked up in one of three ways, as Hadoop's code does for that key:

    own        "<namespace>.<key>" and nothing else
    inherited  the same, else "ipc.<key>" if the namespace is "ipc.<port>" (two parts)
    plain      the key as it stands, whatever the port

A deprecated spelling (`faircallqueue.decay-scheduler.period-ms`) wins over the current one, and a
zero there means that it is not set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import parsing


@dataclass(frozen=True)
class Conf:
    """The `values` of a configuration, for the server whose keys begin with `namespace`."""

    values: Mapping[str, str]
    namespace: str = "ipc"

    def own(self, key: str) -> str | None:
        """The value of this server's key."""
        return self.values.get(f"{self.namespace}.{key}")

    def inherited(self, key: str) -> str | None:
        """The value of this server's key, else of all servers'."""
        everyones, _, port = self.namespace.partition(".")
        value = self.own(key)
        if value is None and port and "." not in port:
            return self.values.get(f"{everyones}.{key}")
        return value

    def plain(self, key: str) -> str | None:
        """The value of `key`, which knows no servers."""
        return self.values.get(key)

    def integer(self, key: str, default: int, *, bits: int = 32) -> int:
        """The integer of this server's key; NotParseable."""
        text = self.own(key)
        return default if text is None else parsing.integer(text, bits)

    def number(self, key: str, default: float) -> float:
        """The number of this server's key; NotParseable."""
        text = self.own(key)
        return default if text is None else parsing.number(text)

    def boolean(self, key: str, default: bool) -> bool:
        """The flag of this server's key."""
        text = self.own(key)
        return default if text is None else parsing.boolean(text, default)

    def integers(self, key: str) -> list[int]:
        """The integers of this server's key, none if it is absent or blank; NotParseable."""
        return parsing.integers(self.own(key) or "")
