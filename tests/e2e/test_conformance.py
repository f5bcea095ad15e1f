"""The conformance list and the interoperability scripts of tests/wire against the real server.

The list runs over every framing; the cases that are about slow clients with time limits of 1.5 s
instead of ten. It allows what a machine takes that has time for it: here, where others want that
too, PATIENCE times as much. What is optional there and other here stands in DIFFERENT, with the
reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..daemon import CONFORMANCE, PATIENCE_S, TCP, Daemon, serving
from .conftest import FOUR, UNIX

pytestmark = pytest.mark.slow

WIRE = Path(__file__).parent.parent / "wire"
RUN = WIRE / "run_conformance.py"
IMPATIENT = ("limits.header-timeout-ms=1500", "limits.message-timeout-ms=1500")
TOO_LARGE = "answered -32054: longer than limits.max-message-bytes, 16 MiB by default"
DIFFERENT = {"json.16MiB": TOO_LARGE, "json.64MiB": TOO_LARGE}
GROUPS = ("batch", "cl", "http", "id", "json", "nd", "req", "smug", "sniff", "spec")
HEAVY = ("json.16MiB", "json.64MiB", "nd.no-newline-flood", "slow.reader")
CHECKS = 413  # cases and transports of the groups, and of the slow clients
PATIENCE = 5


@pytest.fixture(scope="module")
def conforming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("daemon")
    with serving(folder, CONFORMANCE, *FOUR, binds=(TCP, UNIX)) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = [word for setting in IMPATIENT for word in ("--set", setting)]
    folder = tmp_path_factory.mktemp("impatient")
    with serving(folder, CONFORMANCE, *FOUR, *settings, binds=(TCP, UNIX)) as daemon:
        yield daemon


class Run:
    """The cases that begin with `prefix`, in a process of their own: most of them wait."""

    def __init__(self, daemon: Daemon, folder: Path, prefix: str, *how: str) -> None:
        self._table = folder / prefix
        place = ("--port", str(daemon.tcp_port), "--patience", str(PATIENCE))
        command = [sys.executable, str(RUN), "-q", *place, *how]
        self._process = subprocess.Popen([*command, "--id", prefix, "--json", str(self._table)])

    def rows(self) -> list[dict[str, Any]]:
        """The verdicts: one for each case and transport."""
        self._process.wait(3 * PATIENCE_S)
        rows: list[dict[str, Any]] = json.loads(self._table.read_text())["rows"]
        return rows


def test_every_case_of_the_list(conforming: Daemon, impatient: Daemon, tmp_path: Path) -> None:
    runs = [Run(impatient, tmp_path, "slow.")]
    runs += [Run(conforming, tmp_path, f"{group}.") for group in GROUPS]
    rows = [row for run in runs for row in run.rows()]
    assert [row for row in rows if row["verdict"] != "ok"] == []
    assert len(rows) == CHECKS


def test_the_heavy_cases_of_the_list(conforming: Daemon, tmp_path: Path) -> None:
    heavy = ("--heavy", "--transports", "ndjson")
    runs = [Run(conforming, tmp_path, case, *heavy) for case in HEAVY]
    rows = {row["id"]: row for run in runs for row in run.rows()}
    assert rows.keys() == set(HEAVY)
    other = {case: row["verdict"] for case, row in rows.items() if row["verdict"] != "ok"}
    assert other == dict.fromkeys(DIFFERENT, "diff")
    assert all("-32054" in rows[case]["got"] for case in DIFFERENT)


@pytest.mark.parametrize("framing", ["ndjson", "clen", "http"])
@pytest.mark.parametrize("socket", ["tcp", "unix"])
def test_python_without_a_library(conforming: Daemon, framing: str, socket: str) -> None:
    place = ["--port", str(conforming.tcp_port)]
    if socket == "unix":
        place = ["--unix", conforming.unix.removeprefix("unix:")]
    command = [sys.executable, str(WIRE / "py_raw.py"), "--framing", framing, "--par", "8", *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"passed": 12, "failed": 0, "skipped": 0' in done.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("socket", ["tcp", "unix"])
def test_curl(conforming: Daemon, tmp_path: Path, socket: str) -> None:
    place = ["--port", str(conforming.tcp_port)]
    if socket == "unix":
        place = ["--unix", conforming.unix.removeprefix("unix:")]
    command = ["bash", str(WIRE / "curl_checks.sh"), *place]
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert '"passed": 10, "failed": 0, "skipped": 0' in done.stdout, done.stdout
