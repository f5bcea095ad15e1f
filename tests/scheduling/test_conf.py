from __future__ import annotations

import pytest

from faircall.scheduling.conf import Conf
from faircall.scheduling.errors import NotParseable

VALUES = {"ipc.8020.a": "1", "ipc.a": "2", "ipc.b": "3", "c": "4"}


def test_a_port_s_key_hides_everyone_s() -> None:
    conf = Conf(VALUES, "ipc.8020")
    assert (conf.own("a"), conf.own("b")) == ("1", None)
    assert (conf.inherited("a"), conf.inherited("b"), conf.inherited("x")) == ("1", "3", None)
    assert conf.plain("c") == "4"


@pytest.mark.parametrize("namespace", ["ipc", "other", "ipc.8020.more"])
def test_only_a_namespace_of_two_parts_inherits(namespace: str) -> None:
    assert Conf(VALUES, namespace).inherited("b") == Conf(VALUES, namespace).own("b")


def test_an_absent_key_has_its_default() -> None:
    conf = Conf({"ipc.n": "0x10", "ipc.f": "0.5", "ipc.t": "true", "ipc.l": "1,2"})
    assert (conf.integer("n", 7), conf.integer("x", 7)) == (16, 7)
    assert (conf.number("f", 0.1), conf.number("x", 0.1)) == (0.5, 0.1)
    assert (conf.boolean("t", False), conf.boolean("x", False)) == (True, False)
    assert (conf.integers("l"), conf.integers("x")) == ([1, 2], [])


def test_an_empty_value_is_not_an_absent_one() -> None:
    with pytest.raises(NotParseable):
        Conf({"ipc.n": ""}).integer("n", 7)
