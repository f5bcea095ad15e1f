"""The page for operators, `GET /`, and the files that it is made of (`page/`).

They are read when somebody asks for them, and hold nothing that a stranger may not see: a browser
cannot send a token with an address that is typed in. What the page shows and does comes from
`page_figures` and `page_changes`, which ask for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from .http_routes import Route, Routes
from .http_wire import HttpAnswer, HttpRequest

FOLDER = "page"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES = (
    "index.html",
    "page.css",
    "page.js",
    "api.js",
    "changes.js",
    "dom.js",
    "explain.js",
    "figures.js",
    "plots.js",
    "tables.js",
    "icon.svg",
    "uplot.min.js",
    "uplot.min.css",
)
# Everything from here, nothing inline; and no text becomes markup (where browsers know of it).
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)


def path_of(name: str) -> str:
    """Where a file is served."""
    return "/" if name == "index.html" else f"/{FOLDER}/{name}"


def page_routes() -> Routes:
    """A route for each of FILES."""
    return {("GET", path_of(name)): _route(name) for name in FILES}


def _route(name: str) -> Route:
    def serve(request: HttpRequest) -> HttpAnswer:
        body = files(__package__).joinpath(FOLDER, name).read_bytes()
        kind = TYPES["." + name.rpartition(".")[2]]
        return HttpAnswer(body=body, content_type=kind, policy=POLICY)

    return serve
