from __future__ import annotations

from faircall.server.stats_text import as_text


def test_statistics_are_lines_sections_and_tables() -> None:
    counted = {
        "calls": 12345,
        "queue": {"impl": "FairCallQueue", "weights": [8, 4]},
        "levels": [{"level": 0, "waiting": 12}, {"level": 1, "refused": 3}],
    }
    assert as_text(counted, as_json=False).splitlines() == [
        "  calls  12345",
        "",
        "queue",
        "  impl     FairCallQueue",
        "  weights  [8, 4]",
        "",
        "levels",
        "  level  waiting  refused",
        "      0       12",
        "      1                 3",
    ]


def test_nested_sections_have_the_whole_path_as_title() -> None:
    text = as_text({"a": {"b": {"c": 1}, "rows": []}}, as_json=False)
    assert text.splitlines() == ["", "a", "  rows  []", "", "a.b", "  c  1"]


def test_control_characters_of_a_clients_name_are_not_printed() -> None:
    assert as_text({"user": "a\x1b[31m\nb"}, as_json=False) == "  user  a?[31m?b"


def test_json_is_one_line() -> None:
    assert as_text({"a": [1, {"b": "é"}]}, as_json=True) == '{"a":[1,{"b":"é"}]}'
