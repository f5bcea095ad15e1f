"""The commands: what they hand on, what they print, how they end."""

from __future__ import annotations

import errno
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from faircall.server import cli
from faircall.server.admin.client import AdminError
from faircall.server.config import Settings
from faircall.server.settings.load import Source

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in a directory of its own, without FAIRCALL_* of the process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def run_command(*argv: str, **environ: str) -> Result:
        result = CliRunner().invoke(cli.cli, argv, env=environ)
        assert result.exception is None or isinstance(result.exception, SystemExit), argv
        return result

    return run_command


class Served:
    """Stands in for `faircall.server.supervisor.serve` and keeps what it was given."""

    settings: Settings
    target: str

    def serve(self, settings: Settings, target: str, source: Source) -> int:
        self.settings, self.target = settings, target
        assert source.read_again() == settings
        return 7


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    stand_in = Served()
    monkeypatch.setitem(sys.modules, "faircall.server.supervisor.serve", stand_in)
    return stand_in


# -- serve --------------------------------------------------------------------------------------


def test_serve_hands_on_settings_and_target_and_ends_with_the_servers_code(
    run: Run, served: Served
) -> None:
    flags = "--bind tcp://127.0.0.1:0 --bind unix:/tmp/x.sock --handlers 3 --readers 2"
    result = run("serve", "app:api", *flags.split(), "--log-format", "json", "--trust-loopback")
    assert result.exit_code == 7
    assert served.target == "app:api"
    settings = served.settings
    assert [str(address) for address in settings.server.bind] == [
        "tcp://127.0.0.1:0",
        "unix:/tmp/x.sock",
    ]
    assert (settings.handlers.count, settings.server.readers) == (3, 2)
    assert (settings.log.format, settings.identity.trust_loopback) == ("json", True)
    assert settings.origins["handlers.count"] == "--handlers"
    assert settings.origins["identity.trust-loopback"] == "--trust-loopback"
    assert settings.origins["log.level"] == "default"


def test_serve_takes_any_setting_by_its_key(run: Run, served: Served) -> None:
    assert run("serve", "app", "--set", "ipc.8020.backoff.enable=false").exit_code == 7
    assert not served.settings.ports[8020].callqueue.backoff_enable


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--handlers", "none"],
            'faircall: --handlers: handlers.count = "none": is not an integer',
        ),
        (["--handlers", "0"], "must be at least 1"),
        (["--bind", "8020"], "is not an address: write tcp://HOST:PORT"),
        (["--set", "limits.max-batsh=1"], "did you mean limits.max-batch?"),
        (["--set", "limits.max-batch"], "write KEY=VALUE"),
        (
            ["--set", "handlers.count=1", "--handlers", "2"],
            "handlers.count: --handlers sets it, too",
        ),
        (["--config", "missing.toml"], "missing.toml: No such file"),
        (["--config", "/"], "/: Is a directory"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    run: Run, served: Served, argv: list[str], message: str
) -> None:
    result = run("serve", "app:api", *argv)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_serve_elsewhere_than_on_linux_says_so(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    result = run("serve", "app:api")
    assert (result.exit_code, result.stderr) == (
        2,
        "faircall: serve needs Linux; this is darwin\n",
    )


def test_the_help_of_a_flag_is_that_of_its_setting(run: Run) -> None:
    text = " ".join(run("serve", "--help").stdout.split())
    assert "--handlers N Handler processes of each port. [default: the smaller of CPU" in text


# -- check-config -------------------------------------------------------------------------------


def test_check_config_prints_what_is_set_and_where(run: Run) -> None:
    Path("f.toml").write_text("[ipc.9]\ndecay-scheduler.period-ms = 9")
    result = run("check-config", "--config", "f.toml", FAIRCALL_LIMITS_MAX_BATCH="5")
    assert result.exit_code == 0
    assert [" ".join(line.split()) for line in result.stdout.splitlines() if line] == [
        "[limits]",
        "max-batch = 5 # FAIRCALL_LIMITS_MAX_BATCH",
        "[ipc.9]",
        "decay-scheduler.period-ms = 9 # f.toml:2",
    ]
    assert result.stderr == "the configuration is valid\n"


def test_check_config_effective_prints_every_value(run: Run) -> None:
    lines = run("check-config", "--effective").stdout.splitlines()
    assert [" ".join(line.split()) for line in lines if line.startswith("max-depth")] == [
        "max-depth = 128 # default"
    ]
    assert "[ipc.8020]" in lines


def test_check_config_prints_notes_and_takes_the_file_from_the_environment(run: Run) -> None:
    Path("f.toml").write_text("[server]\nbind = 'tcp://127.0.0.1:1'\n[ipc.9]")
    result = run("check-config", FAIRCALL_CONFIG="f.toml")
    assert "note: [ipc.9] is not used: no address in server.bind\n" in result.stderr


def test_check_config_says_what_is_wrong(run: Run) -> None:
    Path("f.toml").write_text('[ipc.8020]\ncostprovider.impl = "x"')
    result = run("check-config", "--config", "f.toml")
    assert result.exit_code == 2
    assert result.stderr == (
        'faircall: f.toml:2: ipc.8020.costprovider.impl = "x": unknown key;'
        " did you mean cost-provider.impl?\n"
    )


def test_the_help_of_check_config_lists_every_setting(run: Run) -> None:
    from faircall.server.settings.catalogue import OWN, PORT

    text = run("check-config", "--help").stdout
    for declared in (*OWN.values(), *PORT.values()):
        assert f"  {declared.key} " in text or f"  {declared.key}\n" in text


# -- stats --------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places that statistics were asked of; a place with "gone" in its name does not answer."""
    places: list[str] = []

    def fetch_stats(place: str) -> dict[str, Any]:
        if "gone" in place:
            raise ConnectionRefusedError(111, "Connection refused")
        places.append(place)
        return {"calls": 5, "levels": [{"level": 0, "waiting": 12}]}

    stand_in = SimpleNamespace(fetch_stats=fetch_stats)
    monkeypatch.setitem(sys.modules, "faircall.server.admin.client", stand_in)
    return places


def test_stats_asks_the_socket_it_is_told(run: Run, asked: list[str]) -> None:
    assert run("stats", "--to", "/tmp/a.sock").exit_code == 0
    assert run("stats", FAIRCALL_ADMIN="/tmp/b.sock").exit_code == 0
    assert asked == ["/tmp/a.sock", "/tmp/b.sock"]


def test_stats_finds_the_only_daemon(run: Run, asked: list[str], tmp_path: Path) -> None:
    result = run("stats")
    assert (result.exit_code, result.stderr) == (
        3,
        f"faircall: no daemon's admin socket in {tmp_path}/faircall\n",
    )
    (tmp_path / "faircall").mkdir()
    (tmp_path / "faircall/8020.sock").touch()
    assert json.loads(run("stats", "--json").stdout)["calls"] == 5
    assert asked == [f"{tmp_path}/faircall/8020.sock"]


def test_of_several_daemons_those_count_that_are_there(
    run: Run, asked: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "faircall"
    folder.mkdir()
    left, first, second = (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(3))
    with left, first, second:
        left.bind(str(folder / "9.sock"))  # as a daemon that was killed leaves it
        first.bind(str(folder / "8020.sock"))
        first.listen()
        assert run("stats").exit_code == 0
        assert asked == [f"{folder}/8020.sock"]
        second.bind(str(folder / "8021.sock"))
        second.listen()
        result = run("stats")
    assert result.exit_code == 2
    places = f"{folder}/8020.sock, {folder}/8021.sock"
    assert f"several daemons run; say --to one of {places}" in result.stderr


def test_stats_of_a_daemon_that_does_not_answer(run: Run, asked: list[str]) -> None:
    result = run("stats", "--to", "/gone.sock")
    assert result.exit_code == 3
    assert result.stderr == "faircall: no daemon answers at /gone.sock: Connection refused\n"


# -- reload -------------------------------------------------------------------------------------

CHANGED = {
    "version": 3,
    "applied": [{"key": "log.level", "old": '"info"', "new": '"debug"'}],
    "unchanged": {"count": 2, "keys": ["a.b", "c.d"]},
    "needs_restart": [{"key": "limits.max-batch", "running": "5", "configured": "6"}],
}
LINES = """\
applied: 1
  log.level: "info" -> "debug"
unchanged: 2
needs restart: 1
  limits.max-batch: 5 runs, 6 is configured
"""


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places whose daemons were asked; "wrong" has a wrong file, "gone" does not answer."""
    places: list[str] = []

    def refresh(place: str) -> dict[str, Any]:
        places.append(place)
        if "wrong" in place:
            raise AdminError(errno.EPROTO, "f.toml:3: limits.max-batch = 0: must be at least 1")
        if "gone" in place:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return CHANGED

    monkeypatch.setattr("faircall.server.admin.client.refresh_call_queue", refresh)
    return places


def test_reload_prints_three_lists(run: Run, refreshed: list[str]) -> None:
    assert run("reload", FAIRCALL_ADMIN="/tmp/a.sock").stdout == LINES
    named = LINES.replace("unchanged: 2\n", "unchanged: 2\n  a.b\n  c.d\n")
    assert run("reload", "--to", "/tmp/b.sock", "--verbose").stdout == named
    assert json.loads(run("reload", "--to", "/tmp/b.sock", "--json").stdout) == CHANGED
    assert refreshed == ["/tmp/a.sock", "/tmp/b.sock", "/tmp/b.sock"]


def test_reload_finds_the_only_daemon(run: Run, refreshed: list[str], tmp_path: Path) -> None:
    assert run("reload").exit_code == 3
    (tmp_path / "faircall").mkdir()
    (tmp_path / "faircall/8020.sock").touch()
    assert run("reload").exit_code == 0
    assert refreshed == [f"{tmp_path}/faircall/8020.sock"]


def test_reload_says_why_nothing_was_changed(run: Run, refreshed: list[str]) -> None:
    result = run("reload", "--to", "/wrong.sock")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "",
        "faircall: nothing was changed: f.toml:3: limits.max-batch = 0: must be at least 1\n",
    )
    result = run("reload", "--to", "/gone.sock")
    assert result.exit_code == 3
    assert result.stderr == "faircall: no daemon answers at /gone.sock: Connection refused\n"


# -- the rest -----------------------------------------------------------------------------------


def test_demo_ends_with_the_code_of_the_demonstration(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = SimpleNamespace(run_demo=lambda: 4)
    monkeypatch.setitem(sys.modules, "faircall.server.demo.demo", stand_in)
    assert run("demo").exit_code == 4


def test_main_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert cli.main(["nonsense"]) == 2
    assert "No such command 'nonsense'" in capsys.readouterr().err
