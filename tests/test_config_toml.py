"""TOML files: keys, lines, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.config import ConfigError
from faircall.server.settings.load import load_settings
from faircall.server.settings.toml_file import line_numbers, read_toml

from .conftest import Load


def test_tables_dotted_and_quoted_keys_are_one_key(load: Load) -> None:
    for text in (
        "[ipc.8020]\nscheduler.priority.levels = 2",
        "[ipc.8020.scheduler]\npriority.levels = 2",
        '[ipc.8020]\n"scheduler.priority.levels" = 2',
        "ipc.8020.scheduler.priority.levels = 2",
        '[ipc]\n"8020" = { scheduler = { priority = { levels = 2 } } }',
    ):
        assert load(text).ports[8020].scheduler.priority_levels == 2, text


def test_a_place_is_the_line_that_sets_the_key() -> None:
    text = """
# [limits]
[limits] # x
max-batch = 1
  "max-depth"=2

[ ipc . 8020 ]
decay-scheduler . period-ms = 5
"""
    assert line_numbers(text) == {
        "limits": 3,
        "limits.max-batch": 4,
        "limits.max-depth": 5,
        "ipc.8020": 7,
        "ipc.8020.decay-scheduler.period-ms": 8,
    }


def test_a_key_without_a_line_of_its_own_is_placed_by_its_file(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"^faircall\.toml: limits\.max-batch = 0: must be"):
        load("limits = { max-batch = 0 }")


def test_one_key_written_in_two_ways_is_set_twice(load: Load) -> None:
    text = '[ipc.8020]\nbackoff.enable = true\n"backoff.enable" = false'
    with pytest.raises(ConfigError, match=r"ipc\.8020\.backoff\.enable is set twice"):
        load(text)


def test_two_of_hadoops_keys_begin_with_another_and_need_quotes(load: Load) -> None:
    both = "[ipc]\nserver.log.slow.rpc = true\n{}server.log.slow.rpc.threshold.ms{} = 9"
    with pytest.raises(ConfigError, match="needs quotes"):
        load(both.format("", ""))
    log = load(both.format('"', '"')).log
    assert (log.slow_rpc, log.slow_rpc_threshold_ms) == (True, 9)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[limits", r"broken\.toml: .*at line 1|end of document"), (b"\xff", "is not UTF-8 text")],
)
def test_a_file_that_is_no_toml_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_toml(path)


@pytest.mark.parametrize("name", ["missing.toml", "missing.xml"])
def test_a_file_that_is_missing_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: No such file"):
        load_settings({}, {}, tmp_path / name)


def test_a_variable_may_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("[limits]\nmax-batch = 5")
    settings = load_settings({}, {"FAIRCALL_CONFIG": str(path)})
    assert settings.limits.max_batch == 5
