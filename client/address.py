"""Where a server is, and how to speak to it.

    tcp://host:port  host:port   newline-delimited JSON over TCP
    unix:/path                   the same over a Unix socket
    http://host:port[/target]    HTTP/1.1 over TCP (port 80 unless given, target /rpc)
    http+unix:/path              HTTP/1.1 over a Unix socket

An IPv6 address stands in brackets: tcp://[::1]:8020. What follows a # in the path of a Unix
socket (a section of the server's configuration) is left out, so that its bind address will do.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from .errors import AddressError

TARGET = "/rpc"
FORMS = "tcp://host:port, unix:/path, http://host:port/rpc or http+unix:/path"


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address has a host and a port, a Unix one a path; `target` is empty without HTTP.

    Where `dial` gives connected sockets (or raises OSError) it needs neither, and is called `name`.
    """

    host: str = ""
    port: int = 0
    path: str = ""
    target: str = ""
    name: str = ""
    dial: Callable[[], socket.socket] | None = None

    @property
    def authority(self) -> str:
        """`host:port` as URLs and the Host header write it; localhost for a Unix socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return "localhost" if self.path else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.dial:
            return self.name
        if self.path:
            return f"{'http+unix' if self.target else 'unix'}:{self.path}"
        return f"{'http' if self.target else 'tcp'}://{self.authority}{self.target}"


def parse_address(text: str) -> Address:
    """Reads one of the forms above; AddressError says what is wrong with any other text."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ("unix", "http+unix"):
        return _unix(text, rest, TARGET if scheme == "http+unix" else "")
    if "://" not in text:
        return _tcp(text, f"tcp://{text}")
    if scheme in ("tcp", "http"):
        return _tcp(text, text)
    if scheme == "https":
        raise _bad(text, "TLS is not spoken by this client")
    raise _bad(text, f"unknown scheme {scheme!r}")


def parse_addresses(addresses: str | Address | Sequence[str]) -> tuple[Address, ...]:
    """One or several: separated by commas in a text, or a list (whose paths may hold commas)."""
    if isinstance(addresses, Address):
        return (addresses,)
    texts = addresses.split(",") if isinstance(addresses, str) else addresses
    if not texts:
        raise AddressError(f"no address; write {FORMS}")
    return tuple(parse_address(text.strip()) for text in texts)


def _unix(text: str, rest: str, target: str) -> Address:
    path = rest.partition("#")[0]
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path.startswith("/"):
        raise _bad(text, "the path of a Unix socket must be absolute")
    return Address(path=path, target=target)


def _tcp(text: str, url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad(text, str(error)) from None
    if any(ord(letter) <= 32 for letter in text) or "@" in parts.netloc:
        raise _bad(text, "a host cannot hold spaces, control characters or @")
    if not parts.hostname:
        meant = f"; did you mean unix:{text}?" if text.startswith("/") else ""
        raise _bad(text, f"the host is missing{meant}")
    if parts.scheme == "http":
        return Address(parts.hostname, 80 if port is None else port, target=_target(parts))
    if not port:
        raise _bad(text, "the port is missing")
    if parts.path or parts.query or parts.fragment:
        raise _bad(text, "nothing can follow the port")
    return Address(parts.hostname, port)


def _target(parts: SplitResult) -> str:
    return (parts.path or TARGET) + (f"?{parts.query}" if parts.query else "")


def _bad(text: str, why: str) -> AddressError:
    return AddressError(f"bad address {text!r}: {why}; write {FORMS}")
