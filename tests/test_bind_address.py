from __future__ import annotations

import pytest

from faircall.server.settings.bind_address import BindAddress, parse_bind_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcp://127.0.0.1:8020", BindAddress(8020, host="127.0.0.1", port=8020)),
        ("tcp://[::1]:0", BindAddress(0, host="::1", port=0)),
        ("tcp://example.org:80", BindAddress(80, host="example.org", port=80)),
        ("unix:/run/x.sock", BindAddress(None, path="/run/x.sock")),
        ("unix:/run/x.sock#9000", BindAddress(9000, path="/run/x.sock")),
    ],
)
def test_an_address_reads_and_writes_as_itself(text: str, expected: BindAddress) -> None:
    address = parse_bind_address(text)
    assert address == expected
    assert str(address) == text
    assert address.is_unix == text.startswith("unix:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("127.0.0.1:8020", "is not an address: write tcp://HOST:PORT, unix:/PATH"),
        ("http://127.0.0.1:8020", "is not an address"),
        ("tcp://:8020", "is not an address"),
        ("tcp://127.0.0.1:8020/rpc", "is not an address"),
        ("tcp://me@127.0.0.1:8020", "is not an address"),
        ("tcp://127.0.0.1", "needs a port"),
        ("tcp://127.0.0.1:70000", "needs a port from 0 to 65535"),
        ("tcp://127.0.0.1:x", "needs a port from 0 to 65535"),
        ("unix:run/x.sock", "needs an absolute path"),
        ("unix:/run/", "needs an absolute path of a socket"),
        ("unix:/run/x.sock#", "needs a port number after #"),
        ("unix:/run/x.sock#70000", "needs a port number after #"),
        ("unix:/" + "é" * 54, "longer than 107 bytes"),
        ("", "is not an address"),
    ],
)
def test_what_is_no_address_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_bind_address(text)


def test_the_longest_path_that_a_unix_socket_can_have_is_accepted() -> None:
    assert parse_bind_address("unix:/" + "x" * 106).is_unix
