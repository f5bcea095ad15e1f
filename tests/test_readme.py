"""What the README shows is what happens: its commands are run, its programs too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .daemon import Daemon, serving, until
from .raw import Raw

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = "faircall.workers.example:service"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not README.exists(), reason="runs in a checkout only"),
]


def blocks(language: str) -> list[str]:
    """The fenced blocks of that language."""
    text = README.read_text() if README.exists() else ""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def transcripts() -> list[tuple[str, str]]:
    """(command, expected output) of every `$ ` line."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def pattern_of(output: str) -> str:
    """Expected output as a regular expression: `...` stands for anything."""
    return r".*".join(re.escape(part) for part in output.rstrip("\n").split("..."))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving(tmp_path_factory.mktemp("readme"), EXAMPLE, "--handlers", "2") as daemon:
        with Raw(daemon.tcp) as raw:
            assert raw.call("add", 1, 2) == 3  # statistics show a caller
        yield daemon


def environment(daemon: Daemon) -> dict[str, str]:
    """As after `. .venv/bin/activate`, but for where the server listens."""
    bin_first = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    admin = str(daemon.folder / "admin.sock")
    return os.environ | {"PATH": bin_first, "FAIRCALL_TO": daemon.tcp, "FAIRCALL_ADMIN": admin}


def port_of(daemon: Daemon) -> str:
    return daemon.tcp.rpartition(":")[2]


@pytest.mark.parametrize(("command", "output"), transcripts())
def test_a_command_prints_what_the_readme_shows(example: Daemon, command: str, output: str) -> None:
    if command.startswith("curl") and not shutil.which("curl"):
        pytest.skip("needs curl")
    port = port_of(example)

    def printed() -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command.replace(":8020", f":{port}")],
            env=environment(example), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        said = (done.stdout + done.stderr).replace(f":{port}", ":8020")
        return said.replace("port 0:", "port 8020:")  # the section's, which had to bind any

    def after_a_call() -> str:
        with Raw(example.tcp) as raw:
            raw.call("add", 1, 2)  # who does not call is forgotten
        return printed()

    if "127.0.0.1 " in output:  # the janitor and the readers have yet to say what it did
        until(lambda: re.search(pattern_of(output), after_a_call(), re.DOTALL), output)
        return
    said = printed()
    assert re.search(pattern_of(output), said, re.DOTALL), said


def test_the_python_client_gets_answers(example: Daemon) -> None:
    program = next(block for block in blocks("python") if "Client(" in block)
    program = program.replace("tcp://127.0.0.1:8020", example.tcp)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert "'words': 6" in lines[0]
    assert lines[1] == "[5, 1, 6, 2, 3, 2, 4, 1, 2, 4]"
    assert lines[2:] == ["64", "3", "-32602 invalid_params"]


def test_the_service_of_ones_own_is_served(tmp_path: Path) -> None:
    program = next(block for block in blocks("python") if "myapp.py" in block)
    (tmp_path / "myapp.py").write_text(program)
    with serving(tmp_path, "myapp:service", "--handlers", "1") as daemon:
        done = subprocess.run(
            [sys.executable, "-m", "faircall", "call", "--json", "classify", "aGVsbG8h", "1"],
            env=environment(daemon), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert done.stdout == '["6 bytes, by a model on GPU 0"]\n'


def test_a_program_embeds_it(tmp_path: Path) -> None:
    for name, mark in (("myapp.py", "# myapp.py"), ("program.py", "faircall.running(")):
        program = next(block for block in blocks("python") if mark in block)
        (tmp_path / name).write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    said = "by a model on GPU "
    first, answered, second = done.stdout.splitlines() or [done.stderr, "", ""]
    assert first.startswith(f"['5 bytes, {said}")
    assert int(answered) >= 1
    assert (second.count(said), "3 bytes" in second, "5 bytes" in second) == (2, True, True)


def test_make_run_serves_the_example_that_these_tests_call() -> None:
    if not shutil.which("make"):
        pytest.skip("needs make")
    dry = subprocess.run(
        ["make", "-n", "run"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert f"faircall serve {EXAMPLE}" in dry.stdout


def test_every_document_and_target_that_is_named_exists() -> None:
    text = README.read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)", text, re.MULTILINE))
    assert "run" in targets
    assert {name for name in targets if f"\n{name}:" not in makefile} == set()
