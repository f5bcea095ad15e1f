"""The identity provider that `identity-provider.impl` names.

UserIdentityProvider            None: the caller itself, and nothing is asked
CallerContextIdentityProvider   `anna/nightly`; by Hadoop's rules `nightly`, whoever sends it
AddressIdentityProvider         the client's address; of a Unix socket its user
UserMethodIdentityProvider      `anna+resize`
GroupIdentityProvider           `group:physics`; of users without one the user
module:name                     an operator's own function of the `Caller` (user, context,
                                address, method), or a class with `identity_of`
"""

from __future__ import annotations

import functools
import grp
import importlib
import pwd
import sys
from collections.abc import Callable
from pathlib import Path

from ...scheduling.identity import IDENTITY_PROVIDERS, Caller, IdentityProvider
from ..supervisor.failures import CannotStart, one_line, place_of
from .pair_file import PairFile

KEY = "identity-provider.impl"


class ContextBelowUser:
    """Contexts are names that clients choose: each user has its own, and can charge no other's."""

    def identity_of(self, caller: Caller) -> str | None:
        return f"{caller.user}/{caller.context}" if caller.context else caller.user


class GroupIdentityProvider:
    """`groups` maps users; without it the user's primary Unix group."""

    def __init__(self, groups: PairFile | None = None) -> None:
        self._group_of: Callable[[str], str | None] = groups.find if groups else _unix_group

    def identity_of(self, caller: Caller) -> str | None:
        group = self._group_of(caller.user or "")
        return f"group:{group}" if group else caller.user


class OwnFunction:
    """An operator's function as a provider."""

    def __init__(self, function: Callable[[Caller], str | None]) -> None:
        self.identity_of = function


def provider_of(
    name: str, *, hadoop_rules: bool = False, groups: PairFile | None = None
) -> IdentityProvider | None:
    """The provider; None where it is always the caller itself. CannotStart."""
    if name == "UserIdentityProvider":
        return None
    if name == "GroupIdentityProvider":
        return GroupIdentityProvider(groups)
    if name == "CallerContextIdentityProvider" and not hadoop_rules:
        return ContextBelowUser()
    if name in IDENTITY_PROVIDERS:
        known: IdentityProvider = IDENTITY_PROVIDERS[name]()
        return known
    return _own(name)


def _own(name: str) -> IdentityProvider:
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
        if isinstance(found, type):
            found = found()
    except BaseException as error:
        raise CannotStart(f"{KEY} = {name}: {one_line(error)} ({place_of(error)})") from error
    if callable(getattr(found, "identity_of", None)):
        provider: IdentityProvider = found
        return provider
    if callable(found):
        return OwnFunction(found)
    raise CannotStart(f"{KEY} = {name}: is neither a function nor a class with identity_of()")


@functools.lru_cache(maxsize=1024)  # who asks may be a directory server, far away
def _unix_group(user: str) -> str | None:
    try:
        return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
    except (KeyError, ValueError):
        return None
