"""The OpenRPC document: what its meta-schema asks for, and that it says what the service does."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from faircall.server.cli import cli
from faircall.workers.example import service as example
from faircall.workers.invoke import invoke
from faircall.workers.openrpc import document
from faircall.workers.service import Service

# Of https://meta.open-rpc.org: the members of each object, the required ones with a star.
MEMBERS = {
    "document": "openrpc* info* methods* servers components externalDocs",
    "info": "title* version* description termsOfService contact license",
    "method": "name* params* result summary description paramStructure errors links tags examples"
    " deprecated servers externalDocs",
    "descriptor": "name* schema* required summary description deprecated",
}


@dataclass
class Point:
    x: float
    y: float = 0.0


def offered() -> Service:
    service = Service("shapes", "2.1.0")

    @service.method(idempotent=True, timeout=2.0)
    def move(point: Point, by: Annotated[int, msgspec.Meta(ge=0)] = 1) -> Point:
        """Move a point.

        To the right.
        """
        return Point(point.x + by, point.y)

    @service.method
    def odd(data: bytes, /, array: NDArray[np.float64], *rest: int, anything=None):  # type: ignore[no-untyped-def]
        return set

    @service.method
    def named(*, kind: Literal["a", "b"]) -> object: ...

    return service


def check(kind: str, found: dict[str, Any]) -> None:
    members = MEMBERS[kind].split()
    assert {name.rstrip("*") for name in members if name.endswith("*")} <= found.keys()
    known = {name.rstrip("*") for name in members}
    assert {name for name in found if not name.startswith("x-")} <= known


@pytest.mark.parametrize("service", [offered(), example], ids=["offered", "example"])
def test_a_document_has_what_the_meta_schema_requires_and_nothing_else(service: Service) -> None:
    found = json.loads(orjson.dumps(document(service)))
    check("document", found)
    check("info", found["info"])
    assert re.fullmatch(r"1\.3\.\d+", found["openrpc"])
    assert [method["name"] for method in found["methods"]] == list(service.methods)
    for method in found["methods"]:
        check("method", method)
        assert method["paramStructure"] in ("by-name", "by-position", "either")
        for descriptor in (*method["params"], method["result"]):
            check("descriptor", descriptor)
        required = [each["required"] for each in method["params"]]
        assert required == sorted(required, reverse=True)
    defined = found.get("components", {}).get("schemas", {})
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(found)):
        assert name in defined


def test_it_says_what_the_functions_say() -> None:
    found = document(offered())
    move, odd, named = found["methods"]
    assert found["info"] == {"title": "shapes", "version": "2.1.0"}
    assert (move["summary"], move["description"]) == ("Move a point.", "To the right.")
    assert move["x-faircall"] == {"idempotent": True, "timeout_s": 2.0}
    assert move["params"][0]["schema"] == {"$ref": "#/components/schemas/Point"}
    assert move["params"][1] == {
        "name": "by",
        "required": False,
        "schema": {"type": "integer", "minimum": 0, "default": 1},
    }
    assert found["components"]["schemas"]["Point"]["required"] == ["x"]
    assert odd["paramStructure"] == "by-position"
    assert [each["name"] for each in odd["params"]] == ["data", "array", "anything"]
    assert odd["params"][0]["schema"] == {"type": "string", "contentEncoding": "base64"}
    assert odd["params"][1]["schema"] == {"type": "array"}
    assert odd["result"]["schema"] == {}
    assert named["paramStructure"] == "by-name"
    assert named["params"][0]["schema"] == {"enum": ["a", "b"]}


def test_every_service_answers_rpc_discover_with_it() -> None:
    service = offered()
    answer = invoke(service, "rpc.discover", b"")
    assert orjson.loads(answer.body) == json.loads(orjson.dumps(document(service)))
    assert not invoke(service, "rpc.discover", b"[1]").ok


def test_the_command_prints_it_and_says_why_it_cannot() -> None:
    done = CliRunner().invoke(cli, ["openrpc", "faircall.workers.example:service"])
    assert json.loads(done.output) == json.loads(orjson.dumps(document(example)))
    failed = CliRunner().invoke(cli, ["openrpc", "nowhere:service"])
    assert (failed.exit_code, "no module 'nowhere'" in failed.output) == (2, True)
