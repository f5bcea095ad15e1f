from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from faircall.workers.blame import what_was_raised


def blamed(path: Path) -> str:
    with pytest.raises((ValueError, KeyError)) as caught:
        runpy.run_path(str(path))
    return what_was_raised(caught.value)


def test_the_line_that_raised_is_named(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("\ndef f():\n    raise ValueError('a\\nb')\n\nf()\n")
    assert blamed(path) == f"ValueError: a b ({path}:3)"


def test_below_a_library_the_users_line_is_named_too(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("import json\n\njson.loads('{')\n")
    found = blamed(path)
    assert found.startswith("JSONDecodeError: Expecting property name")
    assert f"({Path(json.__file__).parent}" in found
    assert found.endswith(f", called from {path}:3)")


def test_a_package_that_is_installed_anywhere_is_a_library(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "lib_of_blame.py").write_text("def f():\n    raise KeyError\n")
    path = tmp_path / "app.py"
    search = f"import sys\nsys.path.insert(0, {str(folder)!r})\n"
    path.write_text(search + "import lib_of_blame as m\nm.f()\n")
    where = f"{folder / 'lib_of_blame.py'}:2, called from {path}:4"
    assert blamed(path) == f"KeyError: no message ({where})"
