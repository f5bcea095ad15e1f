"""What docs/protocol.md and docs/hadoop.md name is there, and what they must name is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import faircall
from faircall.scheduling.backoff import Reason, Refusal
from faircall.scheduling.conf import Conf
from faircall.scheduling.own_scheduler import level_scheduler, within
from faircall.server.config import SECTIONS
from faircall.server.config_ipc import GROUPS
from faircall.server.reader import refusals
from faircall.server.reader.builtins import Builtins
from faircall.server.settings import catalogue
from faircall.server.settings.checks import ONE_VALUE
from faircall.server.settings.declaration import settings_of
from faircall.shm.states import Status
from faircall.workers.envelope import decode
from faircall.workers.errors import ERRORS
from faircall.workers.openrpc import DISCOVER
from faircall.workers.suggestion import unknown_method

from .conformance.deviations import DEVIATIONS, READINGS
from .conformance.not_shared import NOT_SHARED
from .conformance.recorded import GOLDEN, cases

ROOT = Path(faircall.__file__).parent
PROTOCOL, HADOOP = ROOT / "docs/protocol.md", ROOT / "docs/hadoop.md"
PAGES = (PROTOCOL, HADOOP)
IDS = [page.name for page in PAGES]
ANSWERING = ("workers", "server/reader", "server/wire")

pytestmark = pytest.mark.skipif(not PROTOCOL.parent.exists(), reason="runs in a checkout only")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def rows(page: Path) -> list[list[str]]:
    """The cells of every line of every table."""
    lines = [line for line in text(page).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def quoted(page: Path) -> set[str]:
    """What stands between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text(page)))


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (ROOT / folder).rglob("*.py")


# -- errors --------------------------------------------------------------------------------------


def documented_errors() -> dict[tuple[str, str], str]:
    """(code, reason) to what the page says about `retriable`."""
    errors = [row for row in rows(PROTOCOL) if re.fullmatch(r"-\d+|any other", row[0])]
    return {(code, reason.strip("`")): retriable for code, reason, retriable, *_ in errors}


def made_reasons() -> set[str]:
    """Every reason that the code gives by name, instead of its code's own."""
    found = set(refusals._REASONS.values()) | set(map(str, Reason))
    for source in sources(*ANSWERING):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            given = node.value if isinstance(node, ast.keyword) and node.arg == "reason" else None
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                found.add(given.value)
    return found


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_code_is_explained_with_its_reason(code: int) -> None:
    kind = ERRORS[code]
    says = documented_errors()[str(code), kind.reason]
    assert (says == "yes") is kind.retriable


def test_every_reason_is_explained_and_no_other() -> None:
    own = {kind.reason for kind in ERRORS.values()}
    from_decoding = {"too_deep", "batch_too_large"}
    documented = {reason for _, reason in documented_errors()}
    assert documented == own | made_reasons() | from_decoding | {"error"}


def test_the_reasons_of_messages_that_are_not_decoded_are_made() -> None:
    """Those that the search above does not see."""
    for message in (b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", b"[1,2]"):
        [invalid] = decode(message, max_batch=1).items
        reason = re.search(r'"reason":"(\w+)"', cast(Any, invalid).error.decode())
        assert reason
        assert reason[1] in ("too_deep", "batch_too_large")


def test_every_refusal_of_a_reader_is_explained_as_it_is() -> None:
    """Code and reason together; a page that says "if idempotent" is right about both."""
    made = [
        *(getattr(refusals, name) for name in dir(refusals) if name.isupper() and name[0] != "_"),
        *(refusals.busy(verdict, 0, 1) for verdict in refusals._REASONS),
        refusals.no_room("limits.segment-payload-bytes", 1),
        *(refusals.by_rule(Refusal(reason, "a rule", 1), 0) for reason in Reason),
        refusals.throttled(0, 5),
        refusals.nested("server"),
        refusals.standby(0),
        unknown_method("x", list),
        refusals.unauthenticated("x"),
        *(refusals.without_body(s, i) for s in Status for i in (False, True)),
    ]
    documented = documented_errors()
    for error in filter(lambda value: isinstance(value, bytes), made):
        found = re.search(rb'"code":(-\d+).*"reason":"(\w+)","retriable":(\w+)', error)
        assert found, error
        code, reason, retriable = (part.decode() for part in found.groups())
        says = {"true": "yes", "false": "no"}[retriable]
        assert documented[code, reason] in (says, "if idempotent"), error


def test_the_members_of_data_are_explained() -> None:
    explained = {row[0].strip("`") for row in rows(PROTOCOL)}
    assert {"retry_after_ms", "level", "rule", "parameter", "type", "max_bytes", "detail"} <= (
        explained
    )


# -- what is named exists ------------------------------------------------------------------------


def reserved_methods() -> set[str]:
    builtins = Builtins(cast(Any, None), cast(Any, None), cast(Any, None), memoryview(b""))
    return {*builtins.methods, DISCOVER}


def test_every_reserved_method_is_in_the_protocol() -> None:
    assert reserved_methods() <= quoted(PROTOCOL)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    tables = {key.partition(".")[0] for key in (*catalogue.OWN, *catalogue.PORT)} | {"ipc"}
    dotted = {name for name in quoted(page) if re.fullmatch(r"[a-z-]+(\.[a-z0-9*-]+)+", name)}
    named = {name for name in dotted if name.partition(".")[0] in tables} - reserved_methods()
    assert len(named) > 5
    assert [name for name in named if not _is_setting(name)] == []


def _is_setting(name: str) -> bool:
    known = (*catalogue.ABSOLUTE, *catalogue.RELATIVE)
    return catalogue.is_known(name) or any(fnmatchcase(key, name) for key in known)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_file_that_is_named_exists(page: Path) -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    files = {name for name in quoted(page) if "/" in name and name.partition("/")[0] in folders}
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_rows_have_as_many_cells_as_their_head(page: Path) -> None:
    for block in text(page).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block


def test_lengths_in_the_examples_are_those_of_their_bodies() -> None:
    bodies = re.findall(r'\{"jsonrpc".*?(?:"id":1|"result":3)\}', text(PROTOCOL))
    lengths = set(map(int, re.findall(r"Content-Length: ([1-9]\d*)", text(PROTOCOL))))
    assert lengths <= set(map(len, bodies))
    assert lengths


# -- Hadoop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", DEVIATIONS, ids=lambda row: f"{row.component}/{row.pattern}")
def test_every_deviation_is_in_the_page(row: Any) -> None:
    cells = [f"`{row.component}/{row.pattern}`", row.hadoop, row.ours, f"`{row.shown_by}`"]
    assert cells in rows(HADOOP)


@pytest.mark.parametrize("row", NOT_SHARED, ids=lambda row: f"{row.component}/{row.pattern}")
def test_every_deviation_of_the_shared_memory_is_in_the_page(row: Any) -> None:
    steps = " ".join(sorted(row.ops))
    assert [f"`{row.component}/{row.pattern}`", steps, row.why] in rows(HADOOP)


def test_every_reading_is_in_the_page() -> None:
    assert [[two, ours, f"`{test}`"] in rows(HADOOP) for two, ours, test in READINGS] == (
        [True] * len(READINGS)
    )


def test_every_golden_case_that_is_named_is_there() -> None:
    """But for the deviations, some of whose cases are not in every set."""
    files = {file.stem: file.name for file in (GOLDEN / "hadoop").glob("*.json")}
    deviations = {f"{row.component}/{row.pattern}" for row in DEVIATIONS}
    named = {name for name in quoted(HADOOP) - deviations if name.partition("/")[0] in files}
    assert named
    for name in named:
        component, _, pattern = name.partition("/")
        found = [case.name for case in cases("hadoop", files[component])]
        assert any(fnmatchcase(case, pattern) for case in found), name


def test_something_in_the_server_reads_every_key() -> None:
    """What only the statistics read does not count as an effect."""
    assert set(_unread()) == set()


def test_the_scheduler_in_the_page_gives_levels(tmp_path: Path, monkeypatch: Any) -> None:
    example = re.search(r"```python\n(import numpy.*?)```", text(HADOOP), re.DOTALL)
    assert example
    (tmp_path / "shown.py").write_text(example[1])
    monkeypatch.syspath_prepend(tmp_path)
    made = level_scheduler("shown:ByMedian", 4, Conf({}, "ipc.0"))
    costs = np.array([0, 10, 12, 14, 500])
    assert within(made.levels(costs, costs, list("abcde")), 5, 4).tolist() == [0, 0, 0, 0, 3]
    assert within(made.levels(costs[:1], costs[:1], ["a"]), 1, 4).tolist() == [0]


def _unread() -> Iterator[str]:
    read = "".join(path.read_text(encoding="utf-8") for path in sources("server") if _reads(path))
    derived = (ROOT / "server/settings/derived.py").read_text(encoding="utf-8")
    for name, fields in {**SECTIONS, **GROUPS}.items():
        if name == "weighted_cost":  # its fields have the names of other things
            if not re.search(r"\.weighted_cost\b", read):
                yield "weighted-cost.*"
            continue
        for field, declared in settings_of(fields).items():
            used = re.search(rf"(?<!columns)\.{field}\b", read) or f'"{declared.key}"' in derived
            used = used or declared.key in [key for key, _, _ in ONE_VALUE]  # another is refused
            if not used and "metrics" not in declared.key:
                yield declared.key if name in GROUPS else f"{name}.{declared.key}"


def _reads(path: Path) -> bool:
    """Whether it is a part of the server that acts by settings, instead of reading or showing."""
    declares = path.name.startswith("config")
    if path.name == "alarms.py":  # what acts in the admin process
        return True
    return not declares and path.parent.name not in ("settings", "admin")
