"""What a connection may send, and from where: the settings that the wire protocols need."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """Shared by all connections of a port.

    `allowed_hosts` is the guard against DNS rebinding: a web page may give its own name our
    address and then call us as its "own" server, but its browser still sends that name as Host.
    Accepted are the names listed here ("*.example.org" = any name below it, "*" = no check) and,
    always, IP literals, which no DNS answer can forge.  The default suits a loopback bind; who
    serves a network adds the names clients use.

    `allowed_origins` are the web pages that may call: exact origins ("https://app.example.org") or
    "*". Programs send no Origin and are not affected; a page served under our own Host is always
    accepted.

    `busy_http_status` is the status under which the reader sends overload errors: 200, 429 or 503.
    """

    max_message_bytes: int = 16 << 20
    max_header_bytes: int = 32 << 10
    rpc_paths: tuple[str, ...] = ("/", "/rpc")
    allowed_hosts: tuple[str, ...] = ("localhost", "*.localhost")
    allowed_origins: tuple[str, ...] = ()
    busy_http_status: int = 200

    def for_unix_socket(self) -> WireLimits:
        """The same with any Host: no browser reaches a Unix socket, and clients send anything."""
        return replace(self, allowed_hosts=("*",))
