"""Whose word counts for who the caller is (`identity.trusted-peers`), and for where it is
(`identity.trusted-proxies`).

uid:1000, uid:self, user:nginx   peers on Unix sockets, by the kernel's word (SO_PEERCRED)
unix                             every peer on a Unix socket; of proxies only
10.0.0.0/8, 127.0.0.1, ::1       peers on TCP, by their address
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

UNIX = "unix"
LOOPBACK = ("127.0.0.0/8", "::1")


@dataclass(frozen=True, slots=True)
class TrustedPeers:
    uids: frozenset[int]
    networks: tuple[IPv4Network | IPv6Network, ...]
    unix: bool = False

    def trusts_uid(self, uid: int) -> bool:
        return self.unix or uid in self.uids

    def trusts_address(self, host: str) -> bool:
        """`host` is an IP address as the kernel gives it; an IPv4-mapped one counts as IPv4."""
        if not self.networks:
            return False
        address = ip_address(host.partition("%")[0])
        if address.version == 6 and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


NOBODY = TrustedPeers(frozenset(), ())


def parse_trusted_peer(text: str) -> int | IPv4Network | IPv6Network:
    """A uid or a network; ValueError with the end of a sentence if `text` is neither."""
    kind, colon, name = text.partition(":")
    if colon and kind == "uid":
        return _uid(name)
    if colon and kind == "user":
        return _uid_of(name)
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(
            "is not uid:NUMBER, uid:self, user:NAME, an IP address or a network"
        ) from None


def trusted_peers(texts: Iterable[str], *, loopback: bool = False) -> TrustedPeers:
    parsed = [parse_trusted_peer(text) for text in (*texts, *(LOOPBACK if loopback else ()))]
    return TrustedPeers(
        frozenset(peer for peer in parsed if isinstance(peer, int)),
        tuple(peer for peer in parsed if not isinstance(peer, int)),
    )


def parse_trusted_proxy(text: str) -> int | IPv4Network | IPv6Network | None:
    """As `parse_trusted_peer`, and None for `unix`."""
    if text == UNIX:
        return None
    try:
        return parse_trusted_peer(text)
    except ValueError as error:
        raise ValueError(str(error).replace("is not uid", "is not unix, uid")) from None


def trusted_proxies(texts: Iterable[str]) -> TrustedPeers:
    texts = tuple(texts)
    peers = trusted_peers(text for text in texts if text != UNIX)
    return replace(peers, unix=UNIX in texts)


def _uid(text: str) -> int:
    if text == "self":
        return os.geteuid()
    if text.isascii() and text.isdigit():
        return int(text)
    raise ValueError("needs a number or self after uid:")


def _uid_of(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ValueError(f"names the user {name!r}, whom this machine does not know") from None
