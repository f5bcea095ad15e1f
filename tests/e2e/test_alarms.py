"""Alarms on a real daemon: one is raised under a flood, told everywhere, and clears by itself."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, until
from ..raw import Raw, request
from .conftest import Serve
from .gates import gates, wait_for_calls

pytestmark = pytest.mark.slow

FLOOD = 40
HOOK = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_a_flood_is_told_everywhere_and_ends_by_the_commands_that_are_printed(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "told"
    config = tmp_path / "alarms.toml"
    hook = json.dumps([sys.executable, "-c", HOOK, str(told)])
    config.write_text(f"[alarms]\nhook = {hook}\nclear-after-ms = 300\nshare = 0\nstarved = 0\n")
    daemon = serve(
        PROBE,
        *("--handlers", "1", "--trust-loopback", "--config", str(config)),
        *("--set", "admin.listen=unix:~/http.sock".replace("~", str(tmp_path))),
    )
    admin = str(daemon.admin_socket)
    assert main(["stats", "--check", "--to", admin]) == 0
    assert capsys.readouterr().out == "no alarm\n"
    (gate,) = gates(tmp_path, 1)
    with Raw(daemon.tcp) as ann:
        ann.call("faircall.hello", "ann")
        meta = {"caller_context": "the nightly job"}
        ann.send(request("hold", gate.path, id="held", meta=meta))
        wait_for_calls([gate])
        ann.send(*[request("hold", gate.path, id=n, meta=meta) for n in range(FLOOD)])
        (alarm,) = until(lambda: daemon.stats()["alarms"], "an alarm")
        assert (alarm["rule"], alarm["user"], alarm["job"]) == ("wait", "ann", "the nightly job")
        assert (alarm["method"], alarm["address"], alarm["share"]) == ("hold", "127.0.0.1", 1.0)
        raised = daemon.event("alarm raised", rule="wait", user="ann", method="hold")
        assert raised["severity"] == "warning"
        assert main(["stats", "--check", "--to", admin]) == 1
        printed = capsys.readouterr().out.splitlines()
        assert printed[0].startswith("ALARM port 0: calls wait too long (rule wait), for ")
        commands = [shlex.split(line)[1:] for line in printed if line.startswith("  faircall ")]
        assert [words[0] for words in commands] == ["throttle", "cancel", "throttle", "throttle"]
        until(lambda: told.exists() and told.read_text().endswith("\n"), "the first hook's end")
        for words in commands:
            assert main(words) == 0
        assert f"cancelled: {FLOOD} waiting, 1 running" in capsys.readouterr().out
        gate.open("a result that nobody gets")
    daemon.event("alarm cleared", rule="wait", user="ann")
    assert main(["stats", "--check", "--json", "--to", admin]) == 0
    assert json.loads(capsys.readouterr().out) == {"alarms": []}
    hooks = until(lambda: len(lines := told.read_text().splitlines()) == 2 and lines, "hooks")
    assert hooks
    assert [json.loads(line)["event"] for line in hooks] == ["raised", "cleared"]
    assert json.loads(hooks[0])["commands"] == [shlex.join(["faircall", *w]) for w in commands]
