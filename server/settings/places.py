"""The kinds of values that name places: addresses to bind, peers to trust."""

from __future__ import annotations

from collections.abc import Callable

from .bind_address import BindAddress, parse_bind_address
from .kinds import UNSET, Kind, show_text
from .lists import NAMES, read_names
from .trusted_peers import parse_trusted_peer, parse_trusted_proxy


def read_addresses(raw: object) -> object:
    return tuple(dict.fromkeys(map(parse_bind_address, read_names(raw)))) or UNSET


def read_http_addresses(raw: object) -> tuple[BindAddress, ...]:
    """`HOST:PORT` stands for `tcp://HOST:PORT`; none at all is an empty list."""
    names = [] if raw == "" else read_names(raw)
    whole = [name if name.startswith(("tcp://", "unix:")) else f"tcp://{name}" for name in names]
    addresses = tuple(dict.fromkeys(map(parse_bind_address, whole)))
    if any(address.is_unix and address.section is not None for address in addresses):
        raise ValueError("belongs to no section: write unix:/PATH without #PORT")
    return addresses


def show_addresses(addresses: tuple[BindAddress, ...]) -> str:
    return f"[{', '.join(map(show_text, addresses))}]"


def read_peers(raw: object) -> tuple[str, ...]:
    return _each(raw, parse_trusted_peer)


def read_proxies(raw: object) -> tuple[str, ...]:
    return _each(raw, parse_trusted_proxy)


def _each(raw: object, parse: Callable[[str], object]) -> tuple[str, ...]:
    names = read_names(raw)
    for name in names:
        try:
            parse(name)
        except ValueError as error:
            raise ValueError(f"has an element that {error}: {name}") from None
    return names


ADDRESSES = Kind("list of addresses", read_addresses, show_addresses)
HTTP_ADDRESSES = Kind("list of addresses", read_http_addresses, show_addresses)
PEERS = Kind("list of peers", read_peers, NAMES.show)
PROXIES = Kind("list of proxies", read_proxies, NAMES.show)
