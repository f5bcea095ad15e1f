"""What all tests share. No property test is measured by the clock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

import faircall
from faircall.server.config import Settings
from faircall.server.settings.draft import Machine
from faircall.server.settings.load import Flags, load_settings
from faircall.server.settings.processors import Processors

from . import heap

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors, for `-n auto`: many tests wait for another process."""
    return 1 + len(os.sched_getaffinity(0))


def pytest_report_header() -> str:
    return f"faircall {faircall.__version__} from {Path(faircall.__file__).parent}"


def pytest_collection_finish() -> None:
    heap.settle()


@pytest.fixture
def machine() -> Machine:
    """A machine that is the same everywhere: 8 processors, named box."""
    return Machine(
        processors=Processors(8, "the test says so"),
        runtime_directory=Path("/run/faircall"),
        hostname="box",
        pid=4711,
    )


class Load(Protocol):
    """Settings from the text of a file, without the environment of the process."""

    def __call__(
        self,
        text: str = "",
        *,
        name: str = "faircall.toml",
        flags: Flags | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings: ...


@pytest.fixture
def load(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads in a directory of its own, so that places in messages begin with the file's name."""
    monkeypatch.chdir(tmp_path)

    def load_text(
        text: str = "",
        *,
        name: str = "faircall.toml",
        flags: Flags | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        Path(name).write_text(text)
        return load_settings(flags or {}, environ or {}, Path(name), machine)

    return load_text
