"""Rates for what no handler serves."""

from __future__ import annotations

import pytest

from faircall.server.unserved import Unserved, unserved

METHODS = ("resize", "blur", "images.cut", "images.scale")


@pytest.mark.parametrize(
    ("line", "name", "nearest"),
    [
        ("method resise: calls=1", "resise", "resize"),
        ("caller ann of imagescut: calls=1", "imagescut", "images.cut"),
        ("callers of nothing: calls=1", "nothing", ""),
        ("resource gpu of resize blurr: calls=1", "blurr", "blur"),
        ("exempt blr", "blr", "blur"),
        ("service image: calls=1", "image", "images"),
        ("methods of imgaes: calls=1", "imgaes", "images"),
    ],
)
def test_the_nearest_name_is_told(line: str, name: str, nearest: str) -> None:
    found = list(unserved([(line, "throttle.rates")], METHODS))
    assert found == [Unserved("throttle.rates", line, name, nearest)]


def test_what_is_served_or_is_about_all_is_not_told() -> None:
    lines = [
        "server: calls=1",
        "each method: calls=1",
        "each caller: calls=1",
        "caller ann: calls=1",
        "method resize: calls=1",
        "service images: calls=1",
        "callers of service images: calls=1",
        "resource gpu of resize images.cut: calls=1",
        "exempt blur",
    ]
    assert list(unserved([(line, "") for line in lines], METHODS)) == []
