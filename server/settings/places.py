"""The kinds of values that name places: addresses to bind, peers to trust."""

from __future__ import annotations

from collections.abc import Callable

from .bind_address import BindAddress, parse_bind_address
from .kinds import UNSET, Kind, show_text
from .lists import NAMES, read_names
from .trusted_peers import parse_trusted_peer, parse_trusted_proxy


def read_addresses(raw: object) -> object:
    return tuple(dict.fromkeys(map(parse_bind_address, read_names(raw)))) or UNSET


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
PEERS = Kind("list of peers", read_peers, NAMES.show)
PROXIES = Kind("list of proxies", read_proxies, NAMES.show)
