"""Who is charged for a call: identity providers (Hadoop: `IdentityProvider`, HADOOP-9640).

A provider maps the facts about a caller to a name; calls of one name share a level and a cost.

Differs: where Hadoop fails to record a call that has no identity (NullPointerException), or dies of
a provider that raises, such calls share the identity `UNKNOWN`, for levels *and* for costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

UNKNOWN = "IdentityProvider.Unknown"


class Caller(NamedTuple):
    """What is known about the sender of a call; None where nothing is."""

    user: str | None = None
    context: str | None = None
    address: str | None = None
    method: str | None = None


class IdentityProvider(Protocol):
    """Names the party that a call is charged to."""

    def identity_of(self, caller: Caller) -> str | None:
        """The identity, or None for a caller that has none."""


class UserIdentityProvider:
    """The user's name, as it stands (Hadoop's default)."""

    def identity_of(self, caller: Caller) -> str | None:
        return caller.user


class CallerContextIdentityProvider:
    """The caller context, for many jobs under one user name; the user where it is absent."""

    def identity_of(self, caller: Caller) -> str | None:
        return caller.context or caller.user


class AddressIdentityProvider:
    """The client's address, without its port."""

    def identity_of(self, caller: Caller) -> str | None:
        return caller.address


class UserMethodIdentityProvider:
    """User and method, so that a user's heavy method does not slow the light ones."""

    def identity_of(self, caller: Caller) -> str | None:
        return None if caller.user is None else f"{caller.user}+{caller.method or ''}"


IDENTITY_PROVIDERS: Mapping[str, type] = {
    provider.__name__: provider
    for provider in (
        UserIdentityProvider,
        CallerContextIdentityProvider,
        AddressIdentityProvider,
        UserMethodIdentityProvider,
    )
}


def identify(provider: IdentityProvider, caller: Caller) -> str:
    """The identity of `caller`; `UNKNOWN` if `provider` has none for it, or fails."""
    try:
        identity = provider.identity_of(caller)
    except Exception:  # a user's own class must not end the reader that asks it
        return UNKNOWN
    return UNKNOWN if identity is None else str(identity)
