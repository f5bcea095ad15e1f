"""Finding services by name, and sentences for what goes wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faircall.workers.errors import ServiceError
from faircall.workers.load import load_service

SERVICE = """
from faircall import Service
service = Service("mine")
@service.method
def echo(x): return x
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into the folder where "the user" is; what is imported is forgotten after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    before = set(sys.modules)

    def write_module(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    yield write_module
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(target: str) -> str:
    with pytest.raises(ServiceError) as caught:
        load_service(target)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "target", ["fcl_one", "fcl_one:service", "fcl_one.py", "fcl_one.py:service"]
)
def test_a_module_or_a_file_here_is_found(write: Write, target: str) -> None:
    write("fcl_one.py", SERVICE)
    assert load_service(target).methods["echo"].run(b"[7]") == 7


def test_a_module_in_a_package_and_another_attribute(write: Write) -> None:
    write("fcl_pkg/__init__.py", "")
    write("fcl_pkg/inner.py", SERVICE.replace("service", "api"))
    assert load_service("fcl_pkg.inner:api").name == "mine"


def test_a_file_elsewhere_finds_its_neighbours_and_its_annotations(write: Write) -> None:
    write("fcl_there/fcl_near.py", "KIND = int")
    path = write(
        "fcl_there/json.py",
        "from __future__ import annotations\nfrom fcl_near import KIND" + SERVICE
        + "@service.method\ndef typed(x: KIND): return x\n",
    )  # fmt: skip
    import json

    service = load_service(str(path))
    assert service.methods["typed"].run(b"[1]") == 1
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("fcl_missing", "there is no module 'fcl_missing'"),
        ("fcl_missing.deep:x", "there is no module 'fcl_missing'"),
        ("json.fcl_missing", "there is no module 'json.fcl_missing'"),
        ("fcl_missing.py", "there is no file 'fcl_missing.py'"),
        (":service", "names no module"),
        ("", "names no module"),
        ("json:dumps", "json:dumps is of type function, not a Service"),
        ("json", "json has no attribute 'service'"),
    ],
)
def test_what_is_not_there_is_named(write: Write, target: str, text: str) -> None:
    assert text in refusal(target)


def test_a_missing_attribute_is_answered_with_the_services_there_are(write: Write) -> None:
    write("fcl_other.py", SERVICE.replace("service", "api"))
    assert refusal("fcl_other") == "fcl_other has no attribute 'service': it has api"


def test_a_service_without_methods_is_refused(write: Write) -> None:
    write("fcl_empty.py", "from faircall import Service\nservice = Service()")
    assert "no methods" in refusal("fcl_empty")


def test_a_method_that_cannot_be_called_is_refused(write: Write) -> None:
    write("fcl_bad.py", SERVICE + "@service.method\ndef bad(x: 'Nowhere'): ...")
    assert "annotations of bad" in refusal("fcl_bad")


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize(
    ("code", "text", "line"),
    [
        ("\nimport fcl_absent", "raised ModuleNotFoundError: No module named 'fcl_absent'", 2),
        ("def f():\n  1/0\nf()", "raised ZeroDivisionError: division by zero", 2),
        ("\n\ndef (:", "raised SyntaxError", 3),
        ("raise SystemExit", "raised SystemExit: no message", 1),
        ("raise ValueError('a\\nb')", "raised ValueError: a b", 1),
    ],
)
def test_what_the_module_raises_is_told_with_file_and_line(
    write: Write, by_file: bool, code: str, text: str, line: int
) -> None:
    path = write("fcl_raises.py", code)
    found = refusal(str(path) if by_file else "fcl_raises")
    assert text in found
    assert found.endswith(f"({path}:{line})")
    assert "fcl_raises" not in sys.modules


def test_an_interrupt_while_importing_is_not_an_import_error(write: Write) -> None:
    write("fcl_stop.py", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_service("fcl_stop")
