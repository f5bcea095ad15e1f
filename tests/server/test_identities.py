"""Whose level a call has: providers, and the two rows of a call."""

from __future__ import annotations

import getpass
import grp
import logging
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faircall.scheduling.identity import UNKNOWN, Caller
from faircall.server.reader.caller_rules import CallerRules
from faircall.server.reader.pair_file import PairFile
from faircall.server.reader.providers import GroupIdentityProvider, OwnFunction, provider_of
from faircall.server.reader.staging import AdmissionLimits
from faircall.server.supervisor.failures import CannotStart
from faircall.shm.columns import Counter
from faircall.shm.layout import NAME_BYTES

from .reader_client import Client, batch, call, post
from .reader_world import World

Make = Callable[..., World]
ME = getpass.getuser()
FACTS = Caller("anna", "nightly", "192.0.2.7", "resize")


def world_with(make_world: Make, provider: Any, **rules: Any) -> World:
    return make_world(rules=CallerRules(provider=provider, **rules))


def rows_of(world: World, data: bytes, client: Client | None = None) -> tuple[str, str]:
    """The names of identity and principal of the one call in `data`."""
    (client or world.connect()).send(data)
    world.read()
    slot = world.only_slot()
    names = world.shared.names.identities
    identity, principal = (
        names.name(world.word(slot, field) & 0xFFFF_FFFF) for field in ("identity", "principal")
    )
    world.run()
    return identity, principal


# -- the providers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("CallerContextIdentityProvider", "anna/nightly"),
        ("AddressIdentityProvider", "192.0.2.7"),
        ("UserMethodIdentityProvider", "anna+resize"),
    ],
)
def test_each_provider_has_its_names(name: str, identity: str) -> None:
    provider = provider_of(name)
    assert provider is not None
    assert provider.identity_of(FACTS) == identity


def test_the_user_needs_no_provider() -> None:
    assert provider_of("UserIdentityProvider") is None


def test_a_context_is_below_its_user_but_by_hadoops_rules() -> None:
    ours = provider_of("CallerContextIdentityProvider")
    hadoops = provider_of("CallerContextIdentityProvider", hadoop_rules=True)
    assert ours is not None
    assert hadoops is not None
    assert (ours.identity_of(FACTS), hadoops.identity_of(FACTS)) == ("anna/nightly", "nightly")
    assert ours.identity_of(Caller("anna")) == hadoops.identity_of(Caller("anna")) == "anna"


def test_groups_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    path.write_text("anna physics\nbert physics\n")
    provider = GroupIdentityProvider(PairFile(str(path)))
    found = [provider.identity_of(Caller(user)) for user in ("anna", "bert", "carl")]
    assert found == ["group:physics", "group:physics", "carl"]


def test_or_from_the_system() -> None:
    group = grp.getgrgid(pwd.getpwuid(os.geteuid()).pw_gid).gr_name
    provider = GroupIdentityProvider()
    assert provider.identity_of(Caller(ME)) == f"group:{group}"
    assert provider.identity_of(Caller("192.0.2.7")) == "192.0.2.7"
    assert provider.identity_of(Caller("no\0body")) == "no\0body"


OWN = """
def by_method(caller): return f"m:{caller.method}"
class ByUser:
    def identity_of(self, caller): return f"u:{caller.user}"
class Callable:
    def __call__(self, caller): return f"c:{caller.context}"
class Broken:
    def __init__(self): raise RuntimeError("no license")
class Empty: pass
number = 7
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of an operator, in the folder where the server was started."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / f"{name}_bad.py").write_text("import nowhere_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.mark.parametrize(
    ("what", "identity"),
    [("by_method", "m:resize"), ("ByUser", "u:anna"), ("Callable", "c:nightly")],
)
def test_an_operator_has_a_function_or_a_class(own: str, what: str, identity: str) -> None:
    provider = provider_of(f"{own}:{what}")
    assert provider is not None
    assert provider.identity_of(FACTS) == identity


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        (":none", "AttributeError: .*'none'"),
        (":Broken", r"RuntimeError: no license \(.*py:\d+\)"),
        (":Empty", "is neither a function nor a class with identity_of"),
        (":number", "is neither a function nor a class"),
        ("_bad:x", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("_none:x", "ModuleNotFoundError"),
    ],
)
def test_one_that_cannot_be_loaded_stops_the_start(own: str, what: str, complaint: str) -> None:
    with pytest.raises(CannotStart, match=f"^identity-provider.impl = {own}.*: {complaint}"):
        provider_of(own + what)


# -- the two rows of a call -----------------------------------------------------------------------


def test_by_default_both_are_the_caller(world: World) -> None:
    assert rows_of(world, call("seen", id=1)) == (ME, ME)


def test_the_identity_is_charged_and_the_principal_takes_turns(make_world: Make) -> None:
    world = world_with(make_world, provider_of("CallerContextIdentityProvider"))
    data = call("seen", id=1, meta={"caller_context": "nightly"})
    assert rows_of(world, data) == (f"{ME}/nightly", ME)
    assert world.charged(f"{ME}/nightly") == (1, 1)
    assert world.charged(ME) == (0, 0)
    assert (world.seen[0].user, world.seen[0].context) == (ME, "nightly")


def test_the_level_is_that_of_the_identity(make_world: Make) -> None:
    world = world_with(make_world, provider_of("UserMethodIdentityProvider"))
    world.publish_level(ME, 1)
    world.publish_level(f"{ME}+seen", 3)
    client = world.connect()
    client.send(call("seen", id=1) + call("echo", ["x"], 2))
    world.read()
    levels = {world.word(slot) >> 8 & 0xF for slot in world.reader.book.calls}
    world.run()
    assert world.seen[0].level == 3
    assert levels == {0, 3}
    world.finish()


def test_contexts_share_their_users_part_of_the_queue(make_world: Make) -> None:
    """The policy of these tests lets 16 calls of a principal wait; each level has room for 8."""
    world = world_with(make_world, provider_of("CallerContextIdentityProvider"))
    client = world.connect()
    for number in range(20):
        client.send(call("seen", id=number, meta={"caller_context": f"c{number % 10}"}))
        world.read()
    assert world.count(Counter.REFUSED_PRINCIPAL) == 4
    world.run()
    world.verify()


def test_the_context_of_the_request_counts_before_that_of_the_header(make_world: Make) -> None:
    world = world_with(make_world, provider_of("CallerContextIdentityProvider"))
    client = world.connect()
    client.send(post(call("seen", id=1), X_Faircall_Context="header"))
    own = call("seen", id=2, meta={"caller_context": "own"})
    client.send(post(own, X_Faircall_Context="header"))
    client.send(post(call("seen", id=3)))
    world.run()
    assert world.charged(f"{ME}/header") == world.charged(f"{ME}/own") == (1, 1)
    assert world.charged(ME) == (1, 1)


def test_the_address_of_a_unix_peer_is_its_user(make_world: Make) -> None:
    world = world_with(make_world, provider_of("AddressIdentityProvider"))
    assert rows_of(world, call("seen", id=1)) == (ME, ME)
    named = call("faircall.hello", ["anna"]) + call("seen", id=1)
    assert rows_of(world, named, world.connect(tcp=True)) == ("127.0.0.1", "anna")


def test_unknown_methods_and_reserved_ones_make_no_identity(make_world: Make) -> None:
    world = world_with(make_world, provider_of("UserMethodIdentityProvider"))
    client = world.connect()
    client.send(batch(call("no_such", id=1), call("rpc.ping", id=2), call("seen", id=3)))
    world.run()
    assert world.charged(ME) == (1, 1)
    assert world.charged(f"{ME}+seen") == (1, 1)
    assert world.shared.names.identities.find(f"{ME}+no_such") < 0


def test_a_long_message_has_one_identity_for_all_its_requests(make_world: Make) -> None:
    limits = AdmissionLimits(frame_only_above_bytes=200)
    rules = CallerRules(provider=provider_of("CallerContextIdentityProvider"))
    world = make_world(rules=rules, admission=limits)
    calls = batch(*[call("echo", ["x" * 99], number) for number in range(4)])
    client = world.connect()
    client.send(post(calls, X_Faircall_Context="bulk"))
    world.run()
    assert len(client.http_answers()[0]) == 4
    assert world.charged(f"{ME}/bulk") == (4, 4)
    world.finish()


# -- an operator's own function -------------------------------------------------------------------


def raises(error: BaseException) -> Callable[[Caller], str]:
    def function(caller: Caller) -> str:
        raise error

    return function


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even its text")


@pytest.mark.parametrize(
    "function",
    [
        lambda caller: None,
        lambda caller: "",
        raises(KeyError("x")),
        raises(SystemExit(3)),
        raises(KeyboardInterrupt()),
        raises(Unspeakable()),
    ],
)
def test_one_that_fails_is_an_identity_of_its_own(
    make_world: Make, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_with(make_world, OwnFunction(function), newcomer_calls=20)
    with caplog.at_level(logging.WARNING, "faircall.reader"):
        assert rows_of(world, call("seen", id=1)) == (UNKNOWN, ME)
        rows_of(world, call("seen", id=2))
    assert world.charged(UNKNOWN) == (2, 2)
    assert world.count(Counter.IDENTITY_UNKNOWN) == 2
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["no identity"]
    world.verify()


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (7, "7"),
        ("a\nb\x1b", "a\\nb\\x1b"),
        ("\ud800", "\\ud800"),
        ("x" * NAME_BYTES, "x" * NAME_BYTES),
    ],
)
def test_a_name_becomes_printable_text(make_world: Make, identity: Any, name: str) -> None:
    world = world_with(make_world, OwnFunction(lambda caller: identity))
    assert rows_of(world, call("seen", id=1)) == (name, ME)


def test_long_names_differ_in_their_ends(make_world: Make) -> None:
    world = world_with(make_world, OwnFunction(lambda caller: "x" * 99_999 + str(caller.context)))
    client = world.connect()
    for context in "ab":
        client.send(call("seen", id=context, meta={"caller_context": context}))
    world.run()
    found = world.shared.names.identities.used_rows()
    assert len(found) == 4  # the others, the user, and two
    assert world.charged(ME) == (0, 0)


def test_an_identity_whose_row_was_given_away_gets_another(make_world: Make) -> None:
    world = world_with(make_world, OwnFunction(lambda caller: "zoe"))
    rows_of(world, call("seen", id=1))
    names = world.shared.names
    names.evict([names.identities.find("zoe")])
    names.identity("taken", 0)
    world.pass_ms(5)
    assert rows_of(world, call("seen", id=2)) == ("zoe", ME)
