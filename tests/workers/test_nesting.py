"""The depth and the item count of JSON texts, against what a parser finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.workers import nesting
from faircall.workers.nesting import has_more_items_than, is_deeper_than

_texts = st.text(alphabet='[]{}",\\:a \n', max_size=8)
_values = st.recursive(
    st.none() | st.integers() | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=30,
)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


@given(_values, st.integers(0, 6))
def test_the_depth_is_the_parsers_whatever_strings_hold(value: Any, limit: int) -> None:
    assert is_deeper_than(json.dumps(value).encode(), limit) == (_depth(value) > limit)


@given(st.lists(_values, max_size=6), st.integers(0, 6))
def test_the_number_of_items_is_the_parsers_whatever_they_hold(value: Any, limit: int) -> None:
    found = has_more_items_than(json.dumps(value).encode(), max(1, limit))
    assert found == (len(value) > max(1, limit))


@given(st.lists(_values, min_size=1, max_size=6))
def test_a_text_cut_into_chunks_is_read_as_a_whole(value: Any) -> None:
    text = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_CHUNK_BYTES", 3)
        assert not is_deeper_than(text, _depth(value))
        assert is_deeper_than(text, _depth(value) - 1)
        assert not has_more_items_than(text, len(value))


def test_texts_with_few_brackets_are_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_levels", None)
    assert not is_deeper_than(b"[" * 10 + b"]" * 10, 10)
    assert not has_more_items_than(b"[1,2,3]", 3)


def test_sixty_thousand_levels_and_millions_of_items_are_no_trouble() -> None:
    assert is_deeper_than(b"[" * 60_000, 100)
    assert has_more_items_than(b"[" + b"1," * 2_000_000 + b"1]", 1000)
    assert not has_more_items_than(b"[[" + b"1," * 2_000_000 + b"1]]", 1000)
