"""The PROXY protocol, versions 1 and 2: a trusted proxy says whom a connection is for.

Source: "The PROXY protocol", doc/proxy-protocol.txt of HAProxy, sections 2.1 and 2.2.

    v1   PROXY TCP4 192.0.2.7 192.0.2.1 56324 443 CR LF        at most 107 bytes; TCP4 TCP6 UNKNOWN
    v2   12 bytes of signature                                 CR LF CR LF NUL CR LF QUIT LF
         version and command     0x20 LOCAL, 0x21 PROXY
         family and transport    0x11 TCP over IPv4, 0x21 TCP over IPv6, others below
         length, 2 bytes         of what follows: addresses, then TLVs, which we pass over

The header is required where it is expected (section 2: a receiver must not guess), and read byte by
byte: the first byte that cannot be right ends it. The connection stays the proxy's own for LOCAL,
UNKNOWN, UNSPEC, Unix sockets and datagrams, as the specification wants it.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import ClassVar, Final

from .events import Event, Fault
from .framing import Framing, FramingName

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
V1: Final = b"PROXY "
MAX_V1_BYTES: Final = 107
MAX_V2_BYTES: Final = 4096  # after the first 16: what more may come are TLVs that nobody reads
_FIXED: Final = 16
_LOCAL, _PROXY = 0x20, 0x21
_FAMILIES, _TRANSPORTS = range(4), range(3)
_IP: Final[dict[int, tuple[type[IPv4Address | IPv6Address], int, int]]] = {
    0x11: (IPv4Address, 4, 12),
    0x21: (IPv6Address, 16, 36),
}
_UNIX_BYTES: Final = 216


class Malformed(Exception):
    """What arrives is no such header; the message says where."""


class ProxyHeader(Framing):
    """Stands in until the header is whole: then `source` is the client's address, "" the proxy's
    own, and `rest` what follows the header."""

    __slots__ = ("_buffer", "_fault", "rest", "source")

    name: ClassVar[FramingName] = "unknown"

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()
        self._fault = ""
        self.rest = b""
        self.source: str | None = None

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def receive(self, data: bytes) -> None:
        if self.closing or self._fault or self.source is not None:
            return
        self._buffer += data
        try:
            found = parse(self._buffer)
        except Malformed as error:
            self._fault = str(error)
            return
        if found is not None:
            self.source, length = found
            self.rest = bytes(self._buffer[length:])
            self._buffer.clear()

    def next_event(self) -> Event | None:
        if self.closing:
            return self.close_event()
        if self.eof and self._buffer and not self._fault:
            self._fault = "the stream ended inside the PROXY header"
        if self._fault:
            self.stop()
            return Fault(self._fault)
        if self.eof:
            self.stop()
            return self.close_event()
        self.mid_message = bool(self._buffer)
        return None

    def _forget_input(self) -> None:
        self._buffer.clear()


def parse(start: bytes | bytearray) -> tuple[str, int] | None:
    """(source address or "", length of the header); None = more bytes needed; Malformed."""
    if start[:1] == V1[:1]:
        return _parse_v1(start)
    if not SIGNATURE.startswith(start[:12]):
        raise Malformed("no PROXY header at the start of the connection")
    if len(start) > 12 and start[12] not in (_LOCAL, _PROXY):
        raise Malformed(f"PROXY v2: version and command are 0x{start[12]:02x}")
    if len(start) > 13 and not (start[13] >> 4 in _FAMILIES and start[13] & 15 in _TRANSPORTS):
        raise Malformed(f"PROXY v2: family and transport are 0x{start[13]:02x}")
    if len(start) < _FIXED:
        return None
    length = start[14] << 8 | start[15]
    if length > MAX_V2_BYTES:
        raise Malformed(f"PROXY v2: {length} bytes of addresses, at most {MAX_V2_BYTES} will do")
    if start[12] == _PROXY:
        _check_length(start[13], length)
    if len(start) < _FIXED + length:
        return None
    if start[12] == _LOCAL or start[13] not in _IP:
        return "", _FIXED + length
    kind, size, _ = _IP[start[13]]
    return _text(kind(bytes(start[_FIXED : _FIXED + size]))), _FIXED + length


def _check_length(family: int, length: int) -> None:
    needed = {1: 12, 2: 36, 3: _UNIX_BYTES}.get(family >> 4, 0) if family & 15 else 0
    if length < needed:
        raise Malformed(f"PROXY v2: {length} bytes are too few for 0x{family:02x}: {needed}")


def _parse_v1(start: bytes | bytearray) -> tuple[str, int] | None:
    if not V1.startswith(start[: len(V1)]):
        raise Malformed("no PROXY header at the start of the connection")
    end = start.find(b"\r\n", 0, MAX_V1_BYTES)
    line = bytes(start[: end if end >= 0 else MAX_V1_BYTES])
    if b"\n" in line or b"\r" in line[:-1] or (end < 0 and len(start) >= MAX_V1_BYTES):
        raise Malformed("PROXY v1: no CR LF at the end of the line")
    if end < 0:
        return None
    kind, *rest = line.decode("latin-1").split(" ")[1:]
    if kind == "UNKNOWN":
        return "", end + 2
    if kind not in ("TCP4", "TCP6") or len(rest) != 4:
        raise Malformed(f"PROXY v1: {line[:80]!r}")
    address = IPv4Address if kind == "TCP4" else IPv6Address
    try:
        source, _ = address(rest[0]), address(rest[1])
    except AddressValueError:
        raise Malformed(f"PROXY v1: no {kind} addresses in {line[:80]!r}") from None
    if not all(_is_port(text) for text in rest[2:]):
        raise Malformed(f"PROXY v1: no ports in {line[:80]!r}")
    return _text(source), end + 2


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and str(int(text)) == text and int(text) < 1 << 16


def _text(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address).partition("%")[0]
