from __future__ import annotations

import pytest

from faircall.scheduling.identity import IDENTITY_PROVIDERS, UNKNOWN, Caller, identify

CALLER = Caller("alice", "job-7", "10.0.0.1", "resize")


@pytest.mark.parametrize(
    ("provider", "known", "unknown"),
    [
        ("UserIdentityProvider", "alice", UNKNOWN),
        ("CallerContextIdentityProvider", "job-7", UNKNOWN),
        ("AddressIdentityProvider", "10.0.0.1", UNKNOWN),
        ("UserMethodIdentityProvider", "alice+resize", UNKNOWN),
    ],
)
def test_each_provider_names_a_caller(provider: str, known: str, unknown: str) -> None:
    built = IDENTITY_PROVIDERS[provider]()
    assert identify(built, CALLER) == known
    assert identify(built, Caller()) == unknown


def test_a_caller_without_a_context_is_its_user() -> None:
    provider = IDENTITY_PROVIDERS["CallerContextIdentityProvider"]()
    assert identify(provider, Caller("alice")) == "alice"


def test_a_provider_that_fails_names_nobody() -> None:
    class Failing:
        def identity_of(self, caller: Caller) -> str | None:
            raise KeyError(caller.user)

    assert identify(Failing(), CALLER) == UNKNOWN
