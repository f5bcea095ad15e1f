"""Who may ask for what over the admin process's HTTP listener, in this order:

    /livez /readyz   everybody: probes send neither a name that we know nor a token
    Host             421 unless it is an IP address or an allowed name (DNS rebinding: `wire.hosts`)
    Origin           403 unless it is our own: a page of another site is not to read or do anything
    / /page/...      everybody: the page itself, which has no figures, asks for the token
    token            401 unless it stands in `admin.token-file`; not asked for on loopback and on
                     Unix sockets, whose file is for the daemon's user alone

What changes something (any method but GET and HEAD) is asked for more: a token also on loopback,
where every user of the machine, and every page in a browser there, could call; and a body declared
as JSON, which no foreign form sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..reader.pair_file import PairFile
from ..wire.hosts import AllowedHosts
from ..wire.http_head import AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN
from ..wire.http_reply import JSON, Reply
from .http_wire import HttpRequest

READING = ("GET", "HEAD")
OPEN_PATHS = ("/livez", "/readyz")
PAGE, PAGE_FOLDER = "/", "/page/"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a connection came in."""

    is_unix: bool = False
    is_loopback: bool = False


class Access:
    """`hosts` are the names under which requests are served, `tokens` map tokens to users."""

    def __init__(self, hosts: Iterable[str], tokens: PairFile | None = None) -> None:
        self._hosts, self._tokens = AllowedHosts(hosts), tokens

    def check(self, request: HttpRequest, place: Place) -> str:
        """Whose token it is, "" without one; raises `Reply` where the request is not for them."""
        if request.path in OPEN_PATHS:
            return ""
        if not place.is_unix:
            self._hosts.check(request.authority, request.head.http_1_0)
        self._check_origin(request)
        acts = request.method not in READING
        needed = not place.is_unix and (acts or not (place.is_loopback or _is_page(request.path)))
        user = self._user(request.header(AUTHORIZATION)) if needed else ""
        if acts:
            self._check_type(request)
        return user

    def _user(self, authorization: str) -> str:
        scheme, _, token = authorization.partition(" ")
        if self._tokens is None:
            raise Reply(401, "this needs a token, and admin.token-file is not set: none is known")
        if scheme.lower() != "bearer":
            raise Reply(401, "send a token of admin.token-file: Authorization: Bearer TOKEN")
        user = self._tokens.find(token.strip())
        if user is None:
            raise Reply(401, "this token is not known here")
        return user

    def _check_origin(self, request: HttpRequest) -> None:
        origin, host = request.header(ORIGIN).lower(), request.header(HOST).lower()
        if origin and origin not in (f"http://{host}", f"https://{host}"):
            raise Reply(403, "pages of other sites may not call")

    def _check_type(self, request: HttpRequest) -> None:
        declared = request.header(CONTENT_TYPE).partition(";")[0].strip().lower()
        if declared != JSON.decode():
            raise Reply(415, "what changes something is sent as application/json")


def _is_page(path: str) -> bool:
    return path == PAGE or path.startswith(PAGE_FOLDER)
