"""X-Forwarded-For, from the right."""

from __future__ import annotations

import pytest

from faircall.server.reader.forwarded import MalformedForwarding, client_of
from faircall.server.settings.trusted_peers import trusted_proxies

PROXIES = trusted_proxies(("10.0.0.0/8", "fd00::/8", "unix"))


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        (" 192.0.2.7\t", "192.0.2.7"),
        ("192.0.2.7, 10.0.0.2, 10.1.1.1", "192.0.2.7"),
        ("1.2.3.4, 192.0.2.7,10.0.0.2", "192.0.2.7"),
        ("root, <script>, 192.0.2.7", "192.0.2.7"),  # what the client made up is not even read
        ("10.0.0.9, 10.0.0.2", "10.0.0.9"),  # trusted all the way: the first
        ("2001:DB8::7, fd00::1", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("192.0.2.7:56324", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7, ::ffff:10.0.0.2", "192.0.2.7"),
    ],
)
def test_the_first_from_the_right_that_is_no_proxy_is_the_client(
    forwarded: str, client: str
) -> None:
    assert client_of(forwarded, PROXIES) == client


@pytest.mark.parametrize(
    "forwarded",
    ["unknown", "", "192.0.2.7, ", "192.0.2", "192.0.2.7:http", "_x, 10.0.0.2", "[::1", "1:2"],
)
def test_what_a_proxy_appended_must_be_an_address(forwarded: str) -> None:
    with pytest.raises(MalformedForwarding, match="X-Forwarded-For"):
        client_of(forwarded, PROXIES)
