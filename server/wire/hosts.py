"""The guard against DNS rebinding: under which names in `Host` HTTP requests are served.

A web page may give its own name our address and then call us as its "own" server, but its browser
still sends that name as Host. IP literals are always accepted: no DNS answer can forge one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from .http_reply import Reply, malformed

_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


class AllowedHosts:
    """`hosts` are names; "*.example.org" is any name below that one, "*" turns the check off."""

    def __init__(self, hosts: Iterable[str]) -> None:
        names = [host.lower() for host in hosts]
        self._any_host = "*" in names
        self._names = frozenset(names)
        self._domains = tuple(name[1:] for name in names if name.startswith("*."))

    def check(self, authority: bytes, http_1_0: bool) -> None:
        """`Reply` unless requests with this Host (b"": none) are served."""
        if self._any_host or (http_1_0 and not authority):  # no browser speaks HTTP/1.0
            return
        host = _HOST.fullmatch(authority)
        if host is None and authority:
            raise malformed("malformed Host")
        if host is None or not self._is_allowed_name(host[1].decode().lower()):
            raise Reply(421, "this Host is not served here; see the setting for allowed hosts")

    def _is_allowed_name(self, name: str) -> bool:
        name = name.removesuffix(".")
        return name in self._names or name.endswith(self._domains) or _is_ip_literal(name)


def _is_ip_literal(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
