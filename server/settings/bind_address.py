"""Where a port's server listens: `tcp://127.0.0.1:8020`, `unix:/run/faircall.sock#8020`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

FORMS = "write tcp://HOST:PORT, unix:/PATH or unix:/PATH#PORT (or systemd:NAME, fd://NUMBER)"
LONGEST_PATH = 107  # bytes: sun_path of sockaddr_un, less its NUL


@dataclass(frozen=True, slots=True)
class BindAddress:
    """TCP: `host` and `port` (0: the kernel chooses). Unix: `path`. A socket that who starts the
    daemon has opened: `inherited`, its name or number.

    `section` is the port of the `[ipc.<port>]` section that the address belongs to; None, but for
    TCP, means the first section.
    """

    section: int | None
    host: str = ""
    port: int = 0
    path: str = ""
    inherited: str = ""

    @property
    def is_unix(self) -> bool:
        return bool(self.path)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it over TCP."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        section = "" if self.section is None else f"#{self.section}"
        if self.is_unix:
            return f"unix:{self.path}{section}"
        if self.inherited:
            kind = "fd://" if self.inherited.isdigit() else "systemd:"
            return f"{kind}{self.inherited}{section}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def parse_bind_address(text: str) -> BindAddress:
    """ValueError with the end of a sentence if `text` is none."""
    if text.startswith("unix:"):
        return _unix(text.removeprefix("unix:"))
    if text.startswith("tcp://"):
        return _tcp(text)
    for prefix in ("systemd:", "fd://"):
        if text.startswith(prefix):
            return _inherited(text.removeprefix(prefix), is_number=prefix == "fd://")
    raise ValueError(f"is not an address: {FORMS}")


def _inherited(rest: str, *, is_number: bool) -> BindAddress:
    name, hash_sign, section = rest.partition("#")
    if not name or name.isdigit() != is_number or not name.isascii():
        raise ValueError("needs a number after fd://, or systemd's name after systemd:")
    return BindAddress(_port(section) if hash_sign else None, inherited=name)


def _unix(rest: str) -> BindAddress:
    path, hash_sign, section = rest.partition("#")
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError("needs an absolute path of a socket after unix:")
    if len(path.encode()) > LONGEST_PATH:
        raise ValueError(f"has a path longer than {LONGEST_PATH} bytes, the limit of Unix sockets")
    return BindAddress(_port(section) if hash_sign else None, path=path)


def _tcp(text: str) -> BindAddress:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("needs a port from 0 to 65535") from None
    if not parts.hostname or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"is not an address: {FORMS}")
    if port is None:
        raise ValueError("needs a port: tcp://HOST:PORT")
    return BindAddress(port, host=parts.hostname, port=port)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise ValueError("needs a port number after #")
    return int(text)
