"""Who a message is from: tokens, what proxies say, and callers of whom nothing is known."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faircall.server.reader.caller_rules import CallerRules
from faircall.server.reader.pair_file import PairFile
from faircall.server.reader.staging import AdmissionLimits
from faircall.server.reader.timeouts import Timeouts
from faircall.server.settings.trusted_peers import NOBODY, trusted_proxies
from faircall.shm.columns import Counter

from .reader_client import Client, batch, call, post, reasons
from .reader_world import NOBODY_TRUSTED, World

Make = Callable[..., World]
LOOPBACK = trusted_proxies(("127.0.0.0/8",))
UNIX = trusted_proxies(("unix",))


@pytest.fixture
def tokens(tmp_path: Path) -> PairFile:
    path = tmp_path / "tokens"
    path.write_text("t0k-anna anna\nt0k-bert bert\n")
    path.chmod(0o600)
    return PairFile(str(path), secret=True)


def users(world: World) -> list[str]:
    world.run()
    return [each.user for each in world.seen]


def code(answer: Any) -> int:
    return int(answer["error"]["code"])


def connect(world: World, data: bytes, tcp: bool = True) -> Client:
    client = world.connect(tcp=tcp)
    client.send(data)
    world.run()
    return client


# -- tokens ---------------------------------------------------------------------------------------


def test_a_token_says_who_a_stream_is(make_world: Make, tokens: PairFile) -> None:
    world = make_world(trusted=NOBODY_TRUSTED, rules=CallerRules(tokens=tokens))
    client = connect(world, call("faircall.hello", {"token": "t0k-anna"}, 1) + call("seen", id=2))
    assert client.answers()[0]["result"] == {"user": "anna", "server": "faircall"}
    assert users(world) == ["anna"]
    assert world.charged("anna") == (1, 1)
    assert not world.connection().claimed  # it is one user's connection, not a proxy's
    client.send(call("faircall.hello", {"token": "t0k-bert"}) + call("seen"))
    assert users(world) == ["anna", "bert"]


@pytest.mark.parametrize("token", ["wrong", "", "anna", "t0k-anna\n"])
def test_a_wrong_token_is_refused_and_counted(
    make_world: Make, tokens: PairFile, token: str
) -> None:
    world = make_world(rules=CallerRules(tokens=tokens))
    client = connect(world, call("faircall.hello", {"token": token}, 1) + call("seen", id=2))
    assert code(client.answers()[0]) == -32055
    assert users(world) == ["127.0.0.1"]
    assert world.count(Counter.CLAIMS_REFUSED) == 1


def test_where_no_tokens_are_known_none_is_right(world: World) -> None:
    client = connect(world, call("faircall.hello", {"token": "t0k-anna"}, 1))
    assert code(client.answers()[0]) == -32055
    assert "identity.token-file" in client.answers()[0]["error"]["message"]


def test_a_token_and_a_name(make_world: Make, tokens: PairFile) -> None:
    """The name is that of the token, or a claim like any other."""
    world = make_world(trusted=NOBODY_TRUSTED, rules=CallerRules(tokens=tokens))
    for user in ("anna", "root"):
        client = connect(world, call("faircall.hello", {"user": user, "token": "t0k-anna"}, 1))
        client.send(call("seen", id=2))
        assert code(client.answers()[0]) == -32055 if user == "root" else True
    assert users(world) == ["anna", "127.0.0.1"]
    trusting = make_world(rules=CallerRules(tokens=tokens))
    connect(trusting, call("faircall.hello", {"user": "carl", "token": "t0k-anna"}) + call("seen"))
    assert users(trusting) == ["carl"]


@pytest.mark.parametrize(
    "params", [{"token": 1}, {"token": None}, {"token": "t0k-anna", "x": "y"}, {"token": ["a"]}]
)
def test_what_is_no_token_is_no_hello(make_world: Make, tokens: PairFile, params: Any) -> None:
    world = make_world(rules=CallerRules(tokens=tokens))
    assert code(connect(world, call("faircall.hello", params, 1)).answers()[0]) == -32602


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_over_http_each_request_has_its_token(
    make_world: Make, tokens: PairFile, scheme: str
) -> None:
    world = make_world(trusted=NOBODY_TRUSTED, rules=CallerRules(tokens=tokens))
    client = world.connect(tcp=True)
    client.send(post(call("seen", id=1), Authorization=f"{scheme}t0k-anna"))
    client.send(post(call("seen", id=2), Authorization="Bearer t0k-bert", X_Faircall_User="bert"))
    client.send(post(call("seen", id=3)))
    client.send(post(call("seen", id=4), Authorization="Basic YTpi"))
    world.run()
    found = {each["id"]: each["result"] for each in client.http_answers()}
    assert found == {1: "anna", 2: "bert", 3: "127.0.0.1", 4: "127.0.0.1"}


def test_over_http_a_wrong_token_is_401(make_world: Make, tokens: PairFile) -> None:
    world = make_world(rules=CallerRules(tokens=tokens))
    calls = batch(call("seen", id=1), call("seen", id=2), call("seen"))
    client = connect(world, post(calls, Authorization="Bearer wrong"))
    assert client.read().startswith(b"HTTP/1.1 401 ")
    assert [code(each) for each in client.http_answers()[0]] == [-32055, -32055]
    assert users(world) == []
    assert world.count(Counter.CLAIMS_REFUSED) == 1
    assert world.charged("127.0.0.1") == (1, 1)
    client.forget()
    client.send(post(call("seen"), Authorization="Bearer wrong"))  # a notification
    world.run()
    assert client.read().startswith(b"HTTP/1.1 401 ")
    client.send(post(call("seen", id=3)))
    assert users(world) == ["127.0.0.1"]  # the connection goes on


def test_without_tokens_an_authorization_is_for_somebody_else(world: World) -> None:
    connect(world, post(call("seen", id=1), Authorization="Bearer of-a-gateway"))
    assert users(world) == ["127.0.0.1"]


# -- identity.require -----------------------------------------------------------------------------


def test_who_is_only_an_address_is_refused(make_world: Make, tokens: PairFile) -> None:
    world = make_world(trusted=NOBODY_TRUSTED, rules=CallerRules(tokens=tokens, required=True))
    client = connect(world, batch(call("seen", id=1), call("rpc.ping", id=2), call("seen")))
    assert reasons(client.answers()[0]) == [(1, "unauthenticated"), (2, "ok")]
    assert users(world) == []
    assert world.count(Counter.CLAIMS_REFUSED) == 2
    assert world.charged("127.0.0.1") == (2, 2)
    client.send(call("faircall.hello", {"token": "t0k-anna"}) + call("seen", id=3))
    assert users(world) == ["anna"]
    assert world.connection().plain
    world.finish()


def test_a_long_message_is_refused_too(make_world: Make) -> None:
    world = make_world(
        rules=CallerRules(required=True), admission=AdmissionLimits(frame_only_above_bytes=200)
    )
    client = connect(world, call("seen", ["x" * 300], 1))
    assert code(client.answers()[0]) == -32055


def test_over_http_that_is_401(make_world: Make, tokens: PairFile) -> None:
    world = make_world(rules=CallerRules(tokens=tokens, required=True))
    client = connect(world, post(call("seen", id=1)))
    assert client.read().startswith(b"HTTP/1.1 401 ")
    client.send(post(call("seen", id=2), Authorization="Bearer t0k-anna"))
    client.send(post(call("seen", id=3), X_Faircall_User="carl"))
    assert users(world) == ["anna", "carl"]


def test_the_kernels_word_and_that_of_a_trusted_peer_will_do(make_world: Make) -> None:
    world = make_world(rules=CallerRules(required=True))
    connect(world, call("seen", id=1), tcp=False)
    connect(world, call("faircall.hello", ["anna"]) + call("seen", id=1))
    assert users(world)[1] == "anna"


def test_a_forwarded_address_proves_nothing(make_world: Make) -> None:
    world = make_world(rules=CallerRules(required=True, proxies=UNIX))
    client = connect(world, post(call("seen", id=1), X_Forwarded_For="192.0.2.7"), tcp=False)
    assert client.read().startswith(b"HTTP/1.1 401 ")


# -- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proxies", "tcp", "user"),
    [(LOOPBACK, True, "192.0.2.7"), (NOBODY, True, "127.0.0.1"), (UNIX, False, "192.0.2.7")],
)
def test_x_forwarded_for_counts_from_a_trusted_proxy(
    make_world: Make, proxies: Any, tcp: bool, user: str
) -> None:
    world = make_world(trusted=NOBODY_TRUSTED, rules=CallerRules(proxies=proxies))
    client = connect(world, post(call("seen", id=1), X_Forwarded_For="x, 192.0.2.7"), tcp=tcp)
    assert client.http_answers()[0]["result"] == user
    assert world.charged(user) == (1, 1)
    client.send(post(call("seen", id=2)))
    assert len(set(users(world))) == (1 if proxies is NOBODY else 2)
    world.finish()


def test_a_forwarded_address_that_is_none_ends_the_connection(
    make_world: Make, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(rules=CallerRules(proxies=LOOPBACK))
    with caplog.at_level(logging.WARNING, "faircall.reader"):
        client = connect(world, post(call("seen", id=1), X_Forwarded_For="unknown"))
    client.read()
    assert client.ended
    assert users(world) == []
    (record,) = caplog.records
    assert record.args == {
        "peer": "127.0.0.1",
        "error": "X-Forwarded-For: 'unknown' is no IP address",
    }
    assert world.count(Counter.CLOSED_PROTOCOL) == 1
    world.finish()


def test_a_proxy_header_introduces_the_client(make_world: Make) -> None:
    rules = CallerRules(proxies=LOOPBACK, proxy_protocol=True)
    world = make_world(rules=rules)
    client = world.connect(tcp=True)
    for byte in b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n" + call("seen", id=1):
        client.send(bytes([byte]))
        world.read()
    assert users(world) == ["192.0.2.7"]
    client.send(call("faircall.hello", ["root"], 2))
    world.run()
    assert code(client.answers()[-1]) == -32055  # the proxy is trusted, its client is not
    connect(world, b"PROXY UNKNOWN\r\n" + call("seen", id=1))
    assert users(world)[1:] == ["127.0.0.1"]
    connect(world, call("seen", id=1), tcp=False)  # no proxy: no header
    assert len(users(world)) == 3
    world.finish()


def test_a_missing_proxy_header_ends_the_connection_with_one_line(
    make_world: Make, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(rules=CallerRules(proxies=LOOPBACK, proxy_protocol=True))
    with caplog.at_level(logging.WARNING, "faircall.reader"):
        client = connect(world, call("seen", id=1))
    assert client.read() == b""
    assert client.ended
    (record,) = caplog.records
    assert record.getMessage().startswith("proxy header malformed")
    assert users(world) == []
    assert world.count(Counter.CLOSED_PROTOCOL) == 1
    world.finish()


def test_who_is_introduced_still_has_to_say_who_it_is(make_world: Make) -> None:
    rules = CallerRules(proxies=UNIX, proxy_protocol=True, required=True)
    world = make_world(rules=rules)
    header = b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n"
    client = connect(world, header + call("seen", id=1), tcp=False)
    assert code(client.answers()[0]) == -32055


# -- rows that are given to others ----------------------------------------------------------------


def give_away(world: World, name: str, new_name: str) -> int:
    """The row of an idle name becomes another's, as the janitor and a newcomer would have it."""
    names = world.shared.names
    row = names.identities.find(name)
    assert names.evict([row]) == [row]
    assert names.identity(new_name, world.now_ns) == row
    world.pass_ms(1)
    return row


@pytest.mark.parametrize("named", [True, False])
def test_a_refused_claim_is_charged_to_who_made_it(make_world: Make, named: bool) -> None:
    """Not to the stranger who has by now the row that was its own."""
    world = make_world(trusted=NOBODY_TRUSTED)
    client = world.connect(tcp=True)
    give_away(world, "127.0.0.1", "stranger")
    headers = {"X_Faircall_User": "anna"} if named else {}
    client.send(post(call("seen", id=1), **headers))
    world.run()
    assert world.charged("127.0.0.1") == (1, 1)
    assert world.charged("stranger") == (0, 0)


def test_a_newcomer_begins_at_the_level_of_its_account_and_no_other(make_world: Make) -> None:
    world = make_world(rules=CallerRules(newcomer_calls=2))
    client = connect(world, post(call("seen", id=1), X_Faircall_User="anna"))
    client.send(post(call("seen", id=2), X_Faircall_User="anna"))
    world.run()
    give_away(world, "(newcomers of 127.0.0.1)", "stranger")
    world.publish_level("stranger", 3)
    client.send(post(call("seen", id=3), X_Faircall_User="anna"))
    world.run()
    names = world.shared.names
    assert names.level(names.identities.find("anna")) == 0


def test_the_header_of_a_proxy_is_not_the_first_byte_of_its_client(make_world: Make) -> None:
    rules = CallerRules(proxies=LOOPBACK, proxy_protocol=True)
    world = make_world(rules=rules, timeouts=Timeouts(first_byte_ns=5_000_000_000))
    header = b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n"
    silent, slow = connect(world, header), connect(world, header)
    whole = connect(world, header + call("rpc.ping", id=1))
    slow.send(b"{")
    for _ in range(6):
        world.pass_ms(900)
        world.read()
    slow.send(call("rpc.ping", id=1)[1:])
    world.run()
    for client in (silent, slow, whole):
        client.read()
    assert (silent.ended, slow.ended, whole.ended) == (True, False, False)
