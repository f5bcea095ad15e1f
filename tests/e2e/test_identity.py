"""For whom a call is made: by the kernel's word, or by a peer that is trusted to say so."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from faircall import Client

from ..daemon import CONFORMANCE, PROBE, TCP, Daemon, started, until
from ..raw import FRAMINGS, Raw
from .conftest import UNIX, Serve

pytestmark = pytest.mark.slow

NO_SWEEP = "decay-scheduler.period-ms = 3600000"  # none forgets who called once


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
    headers = "X-Request-Timeout-Ms: 30000\r\nX-Faircall-Context: batch\r\n"
    headers += f"traceparent: {trace}\r\n"
    with Raw(address, "http", headers=headers) as raw:
        seen = raw.call("about")
    assert (seen["context"], seen["traceparent"]) == ("batch", trace)
    assert 0 < seen["remaining_s"] <= 30


def test_meta_reaches_the_method(address: str) -> None:
    meta = {"timeout_ms": 30_000, "caller_context": "batch", "attempt": 2, "traceparent": "t"}
    with Raw(address) as raw:
        seen = raw.call("about", meta=meta)
    assert (seen["context"], seen["traceparent"], seen["attempt"]) == ("batch", "t", 2)
    assert 0 < seen["remaining_s"] <= 30


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
    """After its first twenty calls, which all that are new share."""
    daemon = serve(CONFORMANCE, "--handlers", "1", "--trust-loopback")
    for name, count in (("alice", 30), ("bob", 10), ("carl", 25)):
        with Raw(daemon.tcp) as raw:
            raw.call("faircall.hello", name)
            for number in range(count):
                raw.call("echo", number)
    assert calls_of(daemon) == {"alice": 10, "carl": 5, "(newcomers of 127.0.0.1)": 50}


def calls_of(daemon: Daemon) -> dict[str, Any]:
    """What `faircall stats` says of each."""
    return {user["user"]: user["calls"] for user in daemon.stats()["ports"][0]["users"]["top"]}


# -- what the settings say ------------------------------------------------------------------------


def configured(folder: Path, text: str) -> tuple[str, str]:
    """Flags that give a server these settings."""
    (folder / "faircall.toml").write_text(text)
    return "--config", str(folder / "faircall.toml")


def write_tokens(path: Path, text: str) -> None:
    aside = path.with_suffix(".new")
    aside.write_text(text)
    aside.chmod(0o600)
    aside.replace(path)


def test_newcomers_can_be_turned_off(serve: Serve, tmp_path: Path) -> None:
    flags = configured(tmp_path, f"[ipc]\ncallqueue.newcomer-calls = 0\n{NO_SWEEP}\n")
    daemon = serve(CONFORMANCE, "--handlers", "1", "--trust-loopback", *flags)
    with Raw(daemon.tcp) as raw:
        raw.call("faircall.hello", "alice")
        raw.call("echo", 1)
    assert calls_of(daemon) == {"alice": 1}


def test_tokens_are_asked_for_and_read_again(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    write_tokens(path, "t0k-anna anna\n")
    flags = configured(tmp_path, f'[identity]\nrequire = true\ntoken-file = "{path}"\n')
    daemon = serve(PROBE, "--handlers", "1", *flags)
    with Raw(daemon.tcp) as raw, Raw(daemon.tcp, "http") as http:
        assert raw.code("about") == http.code("about") == -32055
        assert http.status == 401
        http.headers = "Authorization: Bearer t0k-anna\r\n"
        assert http.call("about")["user"] == "anna"
    for address in (daemon.tcp, daemon.tcp.replace("tcp://", "http://")):
        with Client(address, token="t0k-anna") as client:
            assert client.call("about")["user"] == "anna"
    until(lambda: daemon.totals()["refused"]["unauthenticated"] == 2)
    write_tokens(path, "t0k-bert bert\n")
    with Raw(daemon.tcp, "http", headers="Authorization: Bearer t0k-bert\r\n") as http:
        until(lambda: "result" in http.ask("about"))
        http.headers = "Authorization: Bearer t0k-anna\r\n"
        assert http.code("about") == -32055


def test_a_provider_of_ones_own_and_a_proxy(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def identity(caller): return f'net {caller.address}'\n")
    text = f"""
        [identity]
        trusted-proxies = ["127.0.0.1"]
        proxy-protocol = true
        [ipc]
        {NO_SWEEP}
        identity-provider.impl = "mine:identity"
        callqueue.newcomer-calls = 0
    """
    daemon = serve(CONFORMANCE, "--handlers", "1", *configured(tmp_path, text))
    with Raw(daemon.tcp) as raw:
        raw.sock.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n")
        assert raw.call("echo", 1) == 1
    assert calls_of(daemon) == {"net 192.0.2.7": 1}
    with Raw(daemon.tcp) as raw:
        raw.send({"jsonrpc": "2.0", "method": "echo", "params": [1], "id": 1})
        assert raw.rest() == []
    until(lambda: "proxy header malformed" in daemon.log)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ('[ipc]\nidentity-provider.impl = "no.such:thing"', "No module named 'no'"),
        ('[ipc]\nscheduler.impl = "no.such:Scheduler"', "No module named 'no'"),
        ('[identity]\ntoken-file = "no-such-file"', "no-such-file cannot be read"),
    ],
)
def test_what_cannot_be_used_stops_the_start(tmp_path: Path, settings: str, complaint: str) -> None:
    with started(tmp_path, PROBE, *configured(tmp_path, settings)) as daemon:
        assert daemon.wait() == 2
        assert daemon.log.count(complaint) == 1
