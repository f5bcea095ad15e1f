"""The commands that say who does what, against a daemon that floods."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from faircall.server import cli_users
from faircall.server.admin import user_list
from faircall.server.admin.dump import DUMPS
from faircall.server.cli import cli

from .daemon import PROBE, Daemon, serving, until
from .raw import Raw, request

pytestmark = pytest.mark.slow


CALLS, USER = 6, "127.0.0.1"
NO_SWEEP = ("--set", "ipc.decay-scheduler.period-ms=3600000")  # none forgets who called


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Its one handler runs a call until the end, and more wait."""
    folder = tmp_path_factory.mktemp("users")
    fifo = str(folder / "fifo")
    os.mkfifo(fifo)
    with (
        serving(folder, PROBE, "--handlers", "1", "--trust-loopback", *NO_SWEEP) as made,
        Raw(made.tcp) as raw,
    ):
        meta = {"caller_context": "nightly"}
        for number in range(CALLS):
            raw.send(request("hold", fifo, id=number, meta=meta))
        until(lambda: "nightly" in run(made, "explain", USER).stdout, "what readers publish")
        yield made
        for _ in range(CALLS):
            Path(fifo).write_text("")
            raw.receive()


def run(daemon: Daemon, *args: str) -> Result:
    admin = str(daemon.folder / "admin.sock")
    return CliRunner().invoke(cli, list(args), env={"FAIRCALL_ADMIN": admin})


def test_users_are_listed_with_a_sentence_about_the_port(daemon: Daemon) -> None:
    head, columns, alice, *_ = run(daemon, "users").stdout.splitlines()
    assert head.startswith("port 0: ")
    assert columns.split()[:4] == ["user", "share", "cost_per_s", "level"]
    assert alice.split()[:2] == [USER, "100.0%"]


def test_users_as_json_and_as_csv_are_the_same(daemon: Daemon) -> None:
    (port,) = json.loads(run(daemon, "users", "--json").stdout)["ports"]
    (first, *_) = csv.DictReader(io.StringIO(run(daemon, "users", "--csv").stdout))
    assert first["user"] == port["top"][0]["user"] == USER
    assert int(first["waiting"]) == port["top"][0]["waiting"] == CALLS - 1
    assert port["total"]["running"] == 1


def test_explain_says_why_and_what(daemon: Daemon) -> None:
    text = run(daemon, "explain", USER).stdout
    assert text.startswith(f"{USER} is at level ")
    assert f"{CALLS - 1} of its calls wait" in text
    (found,) = json.loads(run(daemon, "explain", USER, "--json").stdout)["ports"]
    assert [each["method"] for each in found["methods"]] == ["hold"]
    assert found["addresses"][0]["address"] == "127.0.0.1"


def test_a_caller_may_ask_about_itself(daemon: Daemon) -> None:
    with Raw(daemon.tcp) as raw:
        assert raw.call("faircall.explain")["share"] == 1.0


def test_an_unknown_user_is_a_sentence(daemon: Daemon) -> None:
    result = run(daemon, "explain", "127.0.0.9")
    assert result.exit_code == 2
    assert result.stderr.startswith("faircall: no user '127.0.0.9' at port 0: it has not called")
    assert result.stderr.endswith(f"known is {USER}\n")


@pytest.mark.parametrize("what", cli_users.DUMPS)
def test_everything_can_be_dumped(daemon: Daemon, what: str) -> None:
    (port,) = json.loads(run(daemon, "dump", what, "--json").stdout)["ports"]
    table = list(csv.DictReader(io.StringIO(run(daemon, "dump", what, "--csv").stdout)))
    assert len(table) == port["total"] == len(port["rows"])
    assert run(daemon, "dump", what).stdout.startswith(f"port 0: {port['total']} ")


def test_a_dumped_call_shows_its_context(daemon: Daemon) -> None:
    (port,) = json.loads(run(daemon, "dump", "queues", "--json").stdout)["ports"]
    assert {(row["user"], row["context"]) for row in port["rows"]} == {(USER, "nightly")}


@pytest.mark.parametrize("command", [("stats",), ("users",), ("explain", USER), ("reload",)])
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8020", "unix:/run/x.sock"])
def test_an_address_is_no_admin_socket(command: tuple[str, ...], address: str) -> None:
    result = CliRunner().invoke(cli, [*command, "--to", address])
    assert result.exit_code == 2
    assert f"{address} is where clients call; --to wants the daemon's admin socket" in result.stderr


def test_top_without_textual_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual.app", None)
    monkeypatch.delitem(sys.modules, "faircall.server.admin.top_screen", raising=False)
    result = CliRunner().invoke(cli, ["top"])
    assert result.exit_code == 2
    assert "pip install 'faircall[top]'" in result.stderr


def test_the_choices_are_those_of_the_daemon() -> None:
    assert list(DUMPS) == list(cli_users.DUMPS)
    assert user_list.SORTS == cli_users.SORTS
