from __future__ import annotations

import os
import pwd

import pytest

from faircall.server.settings.trusted_peers import (
    parse_trusted_peer,
    parse_trusted_proxy,
    trusted_peers,
    trusted_proxies,
)


def test_uids_are_trusted_by_number_by_name_and_as_oneself() -> None:
    root = pwd.getpwuid(0).pw_name
    peers = trusted_peers(["uid:4711", f"user:{root}", "uid:self"])
    assert peers.uids == {4711, 0, os.geteuid()}
    assert peers.trusts_uid(4711)
    assert not peers.trusts_uid(4712)


@pytest.mark.parametrize(
    ("host", "trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.1.2.3", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("fe80::1%eth0", True),
        ("127.0.0.1", False),
        ("::1", False),
    ],
)
def test_addresses_are_trusted_by_network(host: str, trusted: bool) -> None:
    assert trusted_peers(["10.0.0.0/8", "192.0.2.7", "fe80::/10"]).trusts_address(host) is trusted


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_trusted_if_it_is_asked_for(host: str) -> None:
    assert trusted_peers([], loopback=True).trusts_address(host)
    assert not trusted_peers(["uid:0"]).trusts_address(host)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uid:", "needs a number or self after uid:"),
        ("uid:-1", "needs a number or self"),
        ("user:no such user", "names the user 'no such user', whom this machine does not know"),
        ("localhost", "is not uid:NUMBER, uid:self, user:NAME, an IP address or a network"),
        ("10.0.0.1/8", "is not uid:NUMBER"),
        ("", "is not uid:NUMBER"),
    ],
)
def test_what_names_no_peer_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_trusted_peer(text)


def test_proxies_may_be_all_that_is_on_a_unix_socket() -> None:
    proxies = trusted_proxies(["unix", "10.0.0.0/8"])
    assert proxies.trusts_uid(4711)
    assert proxies.trusts_address("10.1.2.3")
    assert not trusted_proxies(["uid:0"]).trusts_uid(4711)
    with pytest.raises(ValueError, match="is not uid"):
        parse_trusted_peer("unix")  # not for claims
    with pytest.raises(ValueError, match="is not unix, uid"):
        parse_trusted_proxy("everybody")
