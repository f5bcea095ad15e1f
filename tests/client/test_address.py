from __future__ import annotations

import pytest

from faircall.client import Address, AddressError, parse_address
from faircall.client.address import parse_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://127.0.0.1:8020", Address("127.0.0.1", 8020)),
        ("localhost:8020", Address("localhost", 8020)),
        ("tcp://[::1]:8020", Address("::1", 8020)),
        ("unix:/run/f.sock", Address(path="/run/f.sock")),
        ("unix:///run/f.sock", Address(path="/run/f.sock")),
        ("unix:/run/f.sock#8020", Address(path="/run/f.sock")),
        ("http://h:8020", Address("h", 8020, target="/rpc")),
        ("http://h:8020/", Address("h", 8020, target="/")),
        ("http://h:8020/a/b?c=d", Address("h", 8020, target="/a/b?c=d")),
        ("http://h", Address("h", 80, target="/rpc")),
        ("http+unix:/run/f.sock", Address(path="/run/f.sock", target="/rpc")),
    ],
)
def test_every_form_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the host is missing"),
        ("localhost", "the port is missing"),
        ("tcp://localhost", "the port is missing"),
        ("tcp://localhost:0", "the port is missing"),
        (":8020", "the host is missing"),
        ("/run/x.sock", "the host is missing; did you mean unix:/run/x.sock?"),
        ("tcp://h:80x", "Port could not be cast"),
        ("tcp://h:70000", "Port out of range"),
        ("tcp://[::1:8020", "Invalid IPv6"),
        ("tcp://h:8020/rpc", "nothing can follow the port"),
        ("tcp://me@h:8020", "cannot hold spaces"),
        ("http://h:8020/a\r\nX-Evil: 1", "cannot hold spaces"),
        ("unix:relative", "must be absolute"),
        ("https://h:8020", "TLS is not spoken"),
        ("ftp://h:8020", "unknown scheme 'ftp'"),
    ],
)
def test_anything_else_is_refused_with_the_cause_and_the_forms(text: str, why: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert f"bad address {text!r}: " in str(caught.value)
    assert why in str(caught.value)
    assert "unix:/path" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "authority"),
    [("http://h", "h:80"), ("http://[::1]:8020", "[::1]:8020"), ("http+unix:/s", "localhost")],
)
def test_the_authority_is_what_a_host_header_holds(text: str, authority: str) -> None:
    assert parse_address(text).authority == authority


def test_several_addresses_are_separated_by_commas_or_in_a_list() -> None:
    both = (Address("h", 1), Address(path="/s", target="/rpc"))
    assert parse_addresses("tcp://h:1, http+unix:/s") == both
    assert parse_addresses(["tcp://h:1", "http+unix:/s"]) == both
    assert parse_addresses("h:1") == (Address("h", 1),)
    assert parse_addresses(["unix:/a,b"]) == (Address(path="/a,b"),)


@pytest.mark.parametrize("addresses", ["h:1,", "", [], ["h:1", ""], "h:1,,h:2"])
def test_an_address_that_is_missing_is_told(addresses: object) -> None:
    with pytest.raises(AddressError, match="write tcp://host:port"):
        parse_addresses(addresses)  # type: ignore[arg-type]
