from __future__ import annotations

import pytest

from faircall.scheduling.components import build, canonical, class_named, provider_class
from faircall.scheduling.errors import BadValue, NotBuilt, UnknownClass
from faircall.scheduling.identity import IDENTITY_PROVIDERS, UserIdentityProvider

KNOWN = {"Known": int}


def test_hadoop_s_packages_are_dropped_and_no_others() -> None:
    assert canonical(" org.apache.hadoop.ipc.FairCallQueue ") == "FairCallQueue"
    assert canonical("java.util.concurrent.LinkedBlockingQueue") == "LinkedBlockingQueue"
    assert canonical("com.example.FairCallQueue") == "com.example.FairCallQueue"


def test_a_class_is_known_or_imported() -> None:
    assert class_named("org.apache.hadoop.ipc.Known", KNOWN) is int
    assert class_named("fractions:Fraction", KNOWN).__name__ == "Fraction"


@pytest.mark.parametrize("name", ["", "Unknown", "no.such.Class", "nowhere:X", "math:X", "math:pi"])
def test_a_class_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(UnknownClass, match="class"):
        class_named(name, KNOWN)


def test_of_several_providers_the_first_is_used_but_all_must_exist() -> None:
    def named(*names: str) -> type:
        return provider_class(list(names), IDENTITY_PROVIDERS, "identity_of", UserIdentityProvider)

    assert named() is UserIdentityProvider
    assert named("AddressIdentityProvider", "UserIdentityProvider").__name__.startswith("Address")
    with pytest.raises(NotBuilt) as unknown:
        named("UserIdentityProvider", "no.such.Class")
    assert isinstance(unknown.value.__cause__, UnknownClass)
    with pytest.raises(NotBuilt, match="no method identity_of"):
        named("fractions:Fraction")


class WithConf:
    def __init__(self, whole: str) -> None:
        self.whole = whole

    @classmethod
    def from_conf(cls, whole: str) -> WithConf:
        return cls(f"all of {whole}")


class WithNumber:
    def __init__(self, number: int) -> None:
        if number < 1:
            raise BadValue("too small")


class WithNothing:
    pass


class WithTwo:
    def __init__(self, one: int, two: int) -> None:
        pass


def test_a_component_is_built_from_as_much_as_it_takes() -> None:
    built = build(WithConf, 3, "it")
    assert isinstance(built, WithConf)
    assert built.whole == "all of it"
    assert isinstance(build(WithNumber, 3, "it"), WithNumber)
    assert isinstance(build(WithNothing, 3, "it"), WithNothing)


def test_a_component_that_cannot_be_built_says_why() -> None:
    with pytest.raises(NotBuilt, match="no usable constructor") as unusable:
        build(WithTwo, 3, "it")
    assert unusable.value.__cause__ is None
    with pytest.raises(NotBuilt, match="too small") as refused:
        build(WithNumber, 0, "it")
    assert isinstance(refused.value.__cause__, BadValue)
