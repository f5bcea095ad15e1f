"""What docs/pulsar.md names is there, and every deviation is named."""

from __future__ import annotations

import re
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import faircall
from faircall.scheduling.dispatch_policies import Policies, Rate
from faircall.scheduling.dispatch_settings import DispatchSettings

from .conformance.pulsar_cases import cases
from .conformance.pulsar_deviations import DEVIATIONS, Deviation
from .conformance.pulsar_processes import COMPATIBLE

ROOT = Path(faircall.__file__).parent
PAGE = ROOT / "docs/pulsar.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="runs in a checkout only")


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def quoted() -> set[str]:
    """What stands between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text()))


def test_every_file_that_is_named_exists() -> None:
    files = {name for name in quoted() if re.match(r"(scheduling|tests)/", name)}
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_every_member_that_is_named_exists() -> None:
    members = {
        f"{kind.__name__}.{member.name}"
        for kind in (Rate, Policies, DispatchSettings)
        for member in fields(kind)
    }
    named = {name for name in quoted() if re.match(r"(Rate|Policies|DispatchSettings)\.", name)}
    assert len(named) > 5
    assert {".".join(name.split(".")[:2]) for name in named} <= members


def test_every_golden_case_that_is_named_is_there() -> None:
    """But for the variants, some of which are not in every set."""
    known = {f"{case.component}/{case.name}" for case in cases()}
    if not known:
        pytest.skip("FAIRCALL_GOLDEN has no cases of Pulsar")
    named = {name for name in quoted() if re.match(r"(0\d|1[0-3])_", name)}
    assert len(named) > 10
    assert [name for name in named if not any(fnmatchcase(one, name) for one in known)] == []


@pytest.mark.parametrize("row", DEVIATIONS, ids=lambda row: row.shown_by)
def test_every_deviation_is_in_the_page(row: Deviation) -> None:
    names = ", ".join(f"`{row.component}/{pattern}`" for pattern in row.patterns)
    assert f"| {names} | {row.pulsar} | {row.ours} | `{row.shown_by}` |" in text()


@pytest.mark.parametrize(("name", "key"), COMPATIBLE.items())
def test_every_case_of_bulk_reads_is_in_the_page(name: str, key: str) -> None:
    told = f"refused at configuration: `{key}`" if key else "passed"
    assert re.search(rf"^\| `[^`]+/{name}` \| {re.escape(told)} \|$", text(), re.MULTILINE)


def test_every_test_that_is_named_is_there() -> None:
    named = {name for name in quoted() if re.fullmatch(r"test_\w+", name)}
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 5
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_rows_have_as_many_cells_as_their_head() -> None:
    for block in text().split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block
