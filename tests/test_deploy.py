"""deploy/: files for Docker, systemd and Kubernetes that fit the daemon that they start."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest

import faircall
from faircall.server.settings.load import load_settings

ROOT = Path(faircall.__file__).parent
DEPLOY = ROOT / "deploy"
pytestmark = pytest.mark.skipif(not DEPLOY.exists(), reason="runs in a checkout only")


def needed_s() -> float:
    """From SIGTERM to the end of the last call, by default."""
    shutdown = load_settings(environ={}).shutdown
    return (shutdown.accept_ms + shutdown.grace_ms) / 1000


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of each instruction of the Dockerfile."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_dockerfile_copies_what_there_is_and_all_of_the_package() -> None:
    copied: list[str] = []
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            copied += shlex.split(rest)[:-1]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    code = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert code <= set(copied)


def test_the_daemon_is_process_1_of_the_container_and_not_root() -> None:
    stage = instructions()[[word for word, _ in instructions()].index("FROM", 1) :]
    last = dict(stage)
    assert json.loads(last["ENTRYPOINT"]) == ["faircall", "serve"]
    assert json.loads(last["CMD"])[1:] == ["--bind", "tcp://0.0.0.0:8020"]
    user, _, group = last["USER"].partition(":")
    assert min(int(user), int(group)) > 0
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert "slim" in last["FROM"]
    assert json.loads(last["HEALTHCHECK"].partition("CMD ")[2])[0] == "faircall"


def test_the_unit_gives_the_daemon_time_to_stop_and_a_folder() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "faircall.service")
    service = unit["Service"]
    settings = load_settings(environ={})
    assert service["Type"] == "notify"
    assert float(service["TimeoutStopSec"]) > needed_s()
    assert float(service["TimeoutStartSec"]) > settings.handlers.startup_timeout_s
    assert service["KillMode"] == "mixed"
    assert service["OOMPolicy"] == "continue"
    folder = f"/run/{service['RuntimeDirectory']}"
    assert service["Environment"] == f"FAIRCALL_ADMIN={folder}/admin.sock"
    assert service["RestartPreventExitStatus"] == "2"
    sock = (DEPLOY / "faircall.socket").read_text()
    assert re.search(r"^ListenStream=8020$", sock, re.M)


def test_kubernetes_asks_the_port_and_waits_for_the_calls() -> None:
    text = (DEPLOY / "kubernetes.yaml").read_text()
    (grace_s,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", text)
    assert int(grace_s) > needed_s()
    probes = re.findall(r"(\w+)Probe:\n +httpGet: \{path: (\S+), port: rpc\}", text)
    assert probes == [("startup", "/readyz"), ("readiness", "/readyz"), ("liveness", "/livez")]
    assert "runAsNonRoot: true" in text
