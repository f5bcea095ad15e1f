"""For whom a call is made: by the kernel's word, or by a peer that is trusted to say so."""

from __future__ import annotations

import getpass
from typing import Any

import pytest

from ..daemon import CONFORMANCE, PROBE, TCP, Daemon, until
from ..raw import FRAMINGS, Raw
from .conftest import UNIX, Serve

pytestmark = pytest.mark.slow


def test_a_unix_peer_is_its_user_and_a_tcp_peer_its_address(shared: Daemon) -> None:
    with Raw(shared.unix) as raw:
        assert raw.call("about")["user"] == getpass.getuser()
    with Raw(shared.tcp) as raw:
        assert raw.call("about")["user"] == "127.0.0.1"


@pytest.mark.parametrize("framing", ["lines", "lsp"])
def test_hello_names_the_user_of_a_stream(address: str, framing: str) -> None:
    with Raw(address, framing) as raw:
        assert raw.call("faircall.hello", "carol")["user"] == "carol"
        assert raw.call("about")["user"] == "carol"
        assert raw.call("faircall.hello", "dave")["user"] == "dave"
        assert raw.call("about")["user"] == "dave"


def test_a_header_names_the_user_of_one_http_request(address: str) -> None:
    with Raw(address, "http", headers="X-Faircall-User: erin\r\n") as raw:
        assert raw.call("about")["user"] == "erin"
        raw.headers = ""
        assert raw.call("about")["user"] != "erin"


def test_http_headers_reach_the_method(address: str) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = f"X-Request-Timeout-Ms: 3000\r\nX-Faircall-Context: batch\r\ntraceparent: {trace}\r\n"
    with Raw(address, "http", headers=headers) as raw:
        seen = raw.call("about")
    assert (seen["context"], seen["traceparent"]) == ("batch", trace)
    assert 0 < seen["remaining_s"] <= 3


def test_meta_reaches_the_method(address: str) -> None:
    meta = {"timeout_ms": 3000, "caller_context": "batch", "attempt": 2, "traceparent": "t"}
    with Raw(address) as raw:
        seen = raw.call("about", meta=meta)
    assert (seen["context"], seen["traceparent"], seen["attempt"]) == ("batch", "t", 2)
    assert 0 < seen["remaining_s"] <= 3


def test_a_claim_of_a_peer_that_is_not_trusted_is_refused_and_counted(serve: Serve) -> None:
    """Over TCP nobody is trusted by default; over the Unix socket we are, by our uid."""
    daemon = serve(PROBE, "--handlers", "1", binds=(TCP, UNIX))
    for framing in FRAMINGS:
        headers = "X-Faircall-User: root\r\n" if framing == "http" else ""
        with Raw(daemon.tcp, framing, headers=headers) as raw:
            answer = raw.ask("about") if framing == "http" else raw.ask("faircall.hello", "root")
            assert answer["error"]["code"] == -32055
            assert "identity.trusted-peers" in answer["error"]["message"]
            raw.headers = ""
            assert raw.call("about")["user"] == "127.0.0.1"
    with Raw(daemon.unix) as raw:
        assert raw.call("faircall.hello", "root")["user"] == "root"
    until(lambda: daemon.totals()["refused"]["unauthenticated"] == 3)


def test_the_load_of_each_claimed_user_is_its_own(serve: Serve) -> None:
    daemon = serve(CONFORMANCE, "--handlers", "1", "--trust-loopback")
    for name, count in (("alice", 30), ("bob", 10)):
        with Raw(daemon.tcp) as raw:
            raw.call("faircall.hello", name)
            for number in range(count):
                raw.call("echo", number)
    users: dict[str, Any] = {
        user["user"]: user["calls"] for user in daemon.stats()["ports"][0]["users"]["top"]
    }
    assert users == {"alice": 30, "bob": 10}
