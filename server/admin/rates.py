"""The admin methods about rates: set, get and remove them, and explain which hold a call up.

What changes rates is checked here and carried out by the supervisor (`supervisor.rate_orders`); the
rest is read from the settings in force and from shared memory, without a lock.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...scheduling.errors import BadValue
from ...workers.errors import INVALID_PARAMS, RpcError
from ..rate_request import check_known, line_of_request, name_of, subject_of_request
from ..throttle import sourced_lines
from .explain import explain

if TYPE_CHECKING:
    from ..port import Port

Order = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
MOST_METHODS = 10  # that an error names


class RateMethods:
    """`order` has the supervisor carry a verb out."""

    def __init__(self, ports: Sequence[Port], order: Order) -> None:
        self._ports, self._order = ports, order

    def set(self, params: object) -> Awaitable[dict[str, Any]]:
        """A rate from now on: `level` and so on, or a whole line as `rate` (`rate_request`).

        `version`: only if that is the version in force.
        """
        asked = members(params)
        version = _version(asked)
        try:
            line = line_of_request(asked)
            self._check_methods(asked)
        except BadValue as error:
            raise invalid(error) from None
        return self._order("set_rate", {"line": line, "version": version})

    def remove(self, params: object) -> Awaitable[dict[str, Any]]:
        """What was set is set no more."""
        asked = members(params)
        version = _version(asked)
        try:
            subject = subject_of_request(asked)
        except BadValue as error:
            raise invalid(error) from None
        return self._order("remove_rate", {"subject": subject, "version": version})

    def get(self, params: object) -> dict[str, Any]:
        """All rates, each with its source: `set`, or the key that it stands in."""
        check_members(members(params), ())
        settings = self._ports[0].settings
        lines = sourced_lines(settings.throttle, settings.set_rates.lines)
        return {
            "version": settings.set_rates.version,
            "rates": [{"source": source, "rate": line} for line, source in lines],
        }

    def explain(self, params: object) -> dict[str, Any]:
        """The limits of a call of `method` by `caller`, on each port."""
        asked = members(params)
        check_members(asked, ("method", "caller"))
        try:
            method, caller = name_of(asked, "method"), name_of(asked, "caller")
            self._check_methods({"method": method})
        except KeyError as error:
            raise invalid(f"{error.args[0]} is missing: say whose limits") from None
        except BadValue as error:
            raise invalid(error) from None
        now_ns = time.monotonic_ns()
        found = {"method": method, "caller": caller}
        return {**found, "ports": [explain(port, method, caller, now_ns) for port in self._ports]}

    def _check_methods(self, asked: Mapping[str, Any]) -> None:
        """BadValue for a method that no port serves."""
        wanted = [asked[name] for name in ("method",) if asked.get(name)]
        wanted += asked.get("methods") or []
        known = {name for port in self._ports for name in methods_of(port)}
        for method in wanted:
            if method not in known:
                near = difflib.get_close_matches(method, known, 1) or sorted(known)[:MOST_METHODS]
                raise BadValue(f"method {method!r} is not served; known is {', '.join(near)}")


def methods_of(port: Port) -> list[str]:
    """Those that its handlers have made known."""
    methods = port.shared.names.methods
    return [name for row in methods.used_rows() if not (name := methods.name(row)).startswith("(")]


def members(params: object) -> dict[str, Any]:
    """Named parameters; RpcError for others."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise invalid("parameters are given by name")
    return dict(params)


def check_members(asked: Mapping[str, Any], known: tuple[str, ...]) -> None:
    try:
        check_known(asked, known)
    except BadValue as error:
        raise invalid(error) from None


def invalid(why: object) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: {why}")


def _version(asked: dict[str, Any]) -> int | None:
    """Taken out of what was asked."""
    version = asked.pop("version", None)
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise invalid(f"version = {version!r}: must be a whole number")
    return version
