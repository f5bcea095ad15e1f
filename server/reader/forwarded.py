"""The client's address in X-Forwarded-For, as far as trusted proxies vouch for it.

    X-Forwarded-For: made up, 192.0.2.7, 10.0.0.2     from 10.0.0.1, trusted: 10.0.0.0/8
                              ^ the client

Each proxy appends whom it has heard from, so the list is read from the right: the first address
that is no trusted proxy is the client's, and what stands to the left of it is only what the client
says. If all are trusted proxies, the first of the list is the client.
"""

from __future__ import annotations

from ipaddress import ip_address

from ..settings.trusted_peers import TrustedPeers


class MalformedForwarding(Exception):
    """A trusted proxy has sent what cannot be read; the message says what."""


def client_of(forwarded: str, proxies: TrustedPeers) -> str:
    """The client's address; MalformedForwarding if what a trusted proxy appended is none."""
    address = ""
    for element in reversed(forwarded.split(",")):
        address = _address(element.strip(" \t"))
        if not proxies.trusts_address(address):
            break
    return address


def _address(text: str) -> str:
    """An IP address, with or without a port: 192.0.2.7:80, 2001:db8::1, [2001:db8::1]:80."""
    host = text
    if text.startswith("[") and "]" in text:
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        port = ""
    try:
        address = ip_address(host)
    except ValueError:
        raise MalformedForwarding(f"X-Forwarded-For: {text[:80]!r} is no IP address") from None
    if port and not (port.isascii() and port.isdigit()):
        raise MalformedForwarding(f"X-Forwarded-For: {text[:80]!r} has no port after its colon")
    if address.version == 6 and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address).partition("%")[0]
