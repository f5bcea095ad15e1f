"""What runs here is what the wheel holds, under one name each."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import faircall

ROOT = Path(faircall.__file__).parent
in_a_checkout = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="runs in a checkout only"
)
in_a_wheel = pytest.mark.skipif(
    (ROOT / "pyproject.toml").exists(), reason="runs on an installed wheel only"
)


@in_a_checkout
def test_every_folder_of_code_is_in_the_package_list() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    tops = [folder for folder in ROOT.iterdir() if (folder / "__init__.py").exists()]
    found = {"faircall"} | {
        "faircall." + ".".join(init.parent.relative_to(ROOT).parts)
        for top in tops
        for init in top.rglob("__init__.py")
    }
    assert found == listed


@in_a_checkout
def test_every_make_target_says_what_it_is_for() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    phony = next(line for line in lines if line.startswith(".PHONY:")).split()[1:]
    explained = {line.partition(":")[0] for line in lines if "## " in line and line[0].isalpha()}
    assert explained == set(phony)


@in_a_wheel
def test_the_wheel_installs_faircall_and_nothing_else() -> None:
    files = importlib.metadata.files("faircall") or []
    tops = {file.parts[0] for file in files if ".." not in file.parts}
    info = {top for top in tops if top.endswith(".dist-info")}
    assert tops - info == {"faircall"}
    assert {Path(*file.parts[1:]).suffix for file in files if file.parts[0] == "faircall"} <= {
        ".py",
        ".pyc",
        ".typed",
        ".html",
        ".js",
        ".css",
        ".svg",
        ".LICENSE",
        *(".c", ".h", ".toml"),  # of the benchmarks
    }


def test_no_module_is_loaded_under_a_second_name() -> None:
    seconds = {"client", "perf", "scheduling", "server", "shm", "testing", "workers"}
    assert not seconds & sys.modules.keys()


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("faircall") == faircall.__version__


@pytest.mark.parametrize("name", faircall.__all__)
def test_every_public_name_can_be_had_from_the_root(name: str) -> None:
    assert getattr(faircall, name).__name__ == name


def test_the_errors_of_a_client_are_those_of_the_root() -> None:
    error = faircall.client.errors.remote_error(-32050, "late", None, "m", "tcp://h:1")
    assert isinstance(error, faircall.DeadlineExceeded)
    assert isinstance(error, faircall.RemoteError)
    assert isinstance(error, faircall.RpcClientError)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'faircall' has no attribute 'Server'"):
        faircall.__getattr__("Server")


@pytest.mark.slow
def test_importing_the_root_or_the_command_line_loads_no_server_and_no_numpy() -> None:
    program = (
        "import sys, faircall, faircall.server.cli\n"
        "heavy = {'numpy', 'orjson', 'msgspec', 'httptools', 'posix_ipc', 'psutil'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
