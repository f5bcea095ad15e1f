"""The page of the admin process: what its files say, what it is told, and what it may change."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from faircall.scheduling.latencies import Histogram
from faircall.server.admin import page_figures
from faircall.server.admin.admin import access_of
from faircall.server.admin.http_access import Access, Place
from faircall.server.admin.http_routes import dispatch
from faircall.server.admin.http_wire import HttpAnswer, HttpRequest, HttpWire
from faircall.server.admin.methods import AdminMethods
from faircall.server.admin.page_files import FILES, path_of
from faircall.server.admin.recent_times import RecentTimes, gained
from faircall.server.port import Port
from faircall.server.wire.http_reply import Reply
from faircall.workers.errors import APPLICATION_ERROR, INTERNAL_ERROR, RpcError

from ..conftest import Load
from .small_port import Traffic

FOLDER = files("faircall.server.admin") / "page"
SCRIPTS = [name for name in FILES if name.endswith(".js") and not name.startswith("uplot")]
HOSTILE = "<img src=x onerror=alert(1)>"
SECOND_NS = 1_000_000_000


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def request(target: str, method: str = "GET", body: object = None) -> HttpRequest:
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    wire = HttpWire()
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(raw)}\r\n\r\n"
    wire.receive(head.encode() + raw)
    found = wire.next_request()
    assert found is not None
    return found


def answer(methods: AdminMethods, target: str, method: str = "GET", body: object = None) -> Any:
    """The JSON that is answered; raises the Reply of who refuses."""
    return json.loads(_dispatch(methods, request(target, method, body)).body)


def _dispatch(methods: AdminMethods, asked: HttpRequest) -> HttpAnswer:
    return asyncio.run(dispatch(methods.routes(), asked))


# -- its files ---------------------------------------------------------------------------------


class Markup(HTMLParser):
    """The ids of a document, its attributes, and the texts of its scripts and styles."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.inline = ""
        self._within = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style"):
            self.inline += data.strip()


PAGE = Markup(text("index.html"))


def test_every_file_of_the_folder_is_served_and_no_other() -> None:
    there = {file.name for file in FOLDER.iterdir()}
    assert there == {*FILES, "uplot.LICENSE"}


def test_nothing_in_the_page_is_inline() -> None:
    assert PAGE.inline == ""
    names = {name for _, name, _ in PAGE.attributes}
    assert not [name for name in names if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host(name: str) -> None:
    named = set(re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"')]*", text(name)))
    assert named <= {"https://github.com/leeoniya/uPlot", "http://www.w3.org/2000/svg"}
    assert "@import" not in text(name)


def test_what_the_page_loads_is_served() -> None:
    served = {path_of(name) for name in FILES}
    loaded = {"/" + value for _, name, value in PAGE.attributes if name in ("src", "href")}
    for script in SCRIPTS:
        loaded |= {"/page/" + name for name in re.findall(r'from "\./([^"]+)"', text(script))}
    assert loaded | {"/"} == served


def test_every_id_that_a_script_uses_is_in_the_page_once() -> None:
    used = {name for script in SCRIPTS for name in re.findall(r'byId\("([^"]+)"\)', text(script))}
    assert used <= set(PAGE.ids)
    assert len(PAGE.ids) == len(set(PAGE.ids))
    labels = {value for _, name, value in PAGE.attributes if name in ("for", "aria-labelledby")}
    assert labels <= set(PAGE.ids)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_no_script_makes_markup_or_code_of_a_text(name: str) -> None:
    makes = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML"
    assert not re.findall(makes, text(name))


@pytest.mark.parametrize("name", FILES)
def test_every_file_comes_with_its_type_and_the_policy(port: Port, name: str) -> None:
    wire = HttpWire()
    found = _dispatch(AdminMethods([port]), request(path_of(name)))
    assert found.body == (FOLDER / name).read_bytes()
    head = wire.answer(request(path_of(name)), found).partition(b"\r\n\r\n")[0].decode()
    policy = re.search(r"Content-Security-Policy: (.*)\r\n", head)
    assert policy
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy[1].split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in head
    assert "nosniff" in head
    kind = "text/javascript" if name.endswith(".js") else "text/html" if "html" in name else ""
    assert f"Content-Type: {kind}" in head


def test_the_page_asks_for_no_token_but_its_figures_do(port: Port, load: Load) -> None:
    access, afar = access_of(load()), Place()
    assert isinstance(access, Access)
    for path in map(path_of, FILES):
        assert access.check(request(path), afar) == ""
    for path in ("/stats.json", "/explain.json?user=a", "/metrics", "/pagetwo"):
        with pytest.raises(Reply) as refused:
            access.check(request(path), afar)
        assert refused.value.status == 401
    with pytest.raises(Reply) as refused:
        access.check(request("/", "POST", {}), Place(is_loopback=True))
    assert refused.value.status == 401


# -- what it is told ---------------------------------------------------------------------------


def test_the_figures_are_those_of_stats_and_users(port: Port) -> None:
    traffic, methods = Traffic(port), AdminMethods([port])
    traffic.user("alice", 100)
    traffic.user(HOSTILE, 300)
    traffic.offer("echo", "alice")
    found = answer(methods, "/stats.json?sort=waiting")
    stats: Any = methods.methods["faircall.stats"](None)
    assert found.keys() == stats.keys() | {"sort", "rates"}
    (told,), (counted,) = found["ports"], stats["ports"]
    assert told.keys() == counted.keys() | {"who", "recent"}
    assert [user["user"] for user in told["who"]["top"]] == ["alice", HOSTILE]
    assert [handler["ran_ms"] for handler in told["handlers"]] == [None] * len(told["handlers"])
    assert told["who"]["overload"]["sentence"].startswith("Nobody overloads it")
    assert len(told["recent"]) >= len(told["queue"]["levels"])
    assert found["rates"] is None  # nobody carries out an order here


def test_a_handler_tells_for_how_long_it_has_run_its_call(port: Port) -> None:
    traffic = Traffic(port)
    traffic.offer("echo", "alice")
    traffic.begin(0, time.monotonic_ns() - SECOND_NS)
    (told,) = answer(AdminMethods([port]), "/stats.json")["ports"]
    by_index = {handler["index"]: handler["ran_ms"] for handler in told["handlers"]}
    assert by_index[0] >= 1000


def test_the_users_that_are_told_are_bounded(port: Port) -> None:
    traffic = Traffic(port)
    for number in range(60):
        traffic.user(f"user{number}", 1 + number)
    (told,) = answer(AdminMethods([port]), "/stats.json")["ports"]
    assert len(told["who"]["top"]) == page_figures.TOP
    assert told["who"]["others"]["users"] == 60 - page_figures.TOP


def test_many_who_look_at_once_cost_as_much_as_one(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_figures, "KEPT_NS", 3600 * SECOND_NS)
    traffic, methods = Traffic(port), AdminMethods([port])
    routes = methods.routes()

    def users(target: str) -> int:
        body = asyncio.run(dispatch(routes, request(target))).body
        return int(json.loads(body)["ports"][0]["who"]["users"])

    assert users("/stats.json") == 0
    traffic.user("alice", 100)
    assert users("/stats.json?sort=share") == 0
    assert users("/stats.json?sort=cost") == 1
    monkeypatch.setattr(page_figures, "KEPT_NS", 0)
    assert users("/stats.json") == 1


def test_an_order_that_is_none_is_refused(port: Port) -> None:
    with pytest.raises(Reply, match="sort is one of share") as refused:
        answer(AdminMethods([port]), "/stats.json?sort=name")
    assert refused.value.status == 400


def test_a_user_is_explained_whatever_its_name_is(port: Port) -> None:
    Traffic(port).user(HOSTILE, 100)
    methods = AdminMethods([port])
    found = answer(methods, "/explain.json?user=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert found["user"] == HOSTILE
    assert found["text"][0].startswith(f"{HOSTILE} is at level 0")
    for target in ("/explain.json?user=nobody", "/explain.json"):
        with pytest.raises(Reply) as refused:
            answer(methods, target)
        assert refused.value.status == 404


def test_recent_times_are_those_of_the_window(port: Port) -> None:
    times, start_ns = RecentTimes(port.shared), time.monotonic_ns()
    wrote = port.shared.histograms.of_handler(0)

    def p99_ms(second: float) -> float | None:
        return times.levels(start_ns + int(second * SECOND_NS))[1]["wait_p99_ms"]

    wrote.ran(0, 1, 0, 500_000_000, 1)
    assert p99_ms(0) is None  # before the first look
    wrote.ran(0, 1, 0, 1_000_000, 1)
    assert p99_ms(1) == pytest.approx(1, rel=0.15)
    for second in range(2, 11):
        assert p99_ms(second) is not None
    assert p99_ms(11.5) is None
    wrote.ran(0, 1, 0, 1_000_000, 1)
    assert p99_ms(3600) is None  # nobody had looked for an hour


def test_what_was_gained_is_never_less_than_nothing() -> None:
    more, less = Histogram.empty(), Histogram.empty()
    more.counts[3] = 5
    less.counts[3] = 2
    assert gained(more, less).count == 3
    assert gained(less, more).count == 0


# -- what it changes ---------------------------------------------------------------------------


class Supervisor:
    """Carries out nothing: keeps what it was ordered, and fails with `error` if there is one."""

    def __init__(self, error: RpcError | None = None) -> None:
        self.orders: list[tuple[str, Mapping[str, Any]]] = []
        self._error = error

    async def order(self, verb: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.orders.append((verb, params))
        if self._error:
            raise self._error
        return {"version": 7}


@pytest.mark.parametrize(
    ("path", "params", "verb"),
    [
        ("/throttle/set", {"level": "caller", "caller": "ann", "calls": 10}, "set_rate"),
        ("/throttle/set", {"level": "caller", "caller": "ann", "calls": "blocked"}, "set_rate"),
        ("/throttle/remove", {"rate": "caller ann: calls=10"}, "remove_rate"),
        ("/cancel", {"user": HOSTILE}, "cancel"),
    ],
)
def test_a_change_is_an_order(port: Port, path: str, params: dict[str, Any], verb: str) -> None:
    supervisor = Supervisor()
    methods = AdminMethods([port], None, supervisor.order)
    assert answer(methods, path, "POST", params) == {"version": 7}
    ((ordered, with_params),) = supervisor.orders
    assert ordered == verb
    assert "ann" in str(with_params) or HOSTILE in str(with_params)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"nonsense", 400), ([], 400), ({}, 400), ({"user": "ann", "all": True}, 400)],
)
def test_what_is_asked_wrongly_changes_nothing(port: Port, body: object, status: int) -> None:
    supervisor = Supervisor()
    with pytest.raises(Reply) as refused:
        answer(AdminMethods([port], None, supervisor.order), "/cancel", "POST", body)
    assert refused.value.status == status
    assert not supervisor.orders


@pytest.mark.parametrize(("code", "status"), [(APPLICATION_ERROR, 409), (INTERNAL_ERROR, 503)])
def test_why_the_supervisor_refuses_is_told(port: Port, code: int, status: int) -> None:
    methods = AdminMethods([port], None, Supervisor(RpcError(code, "not now")).order)
    with pytest.raises(Reply, match="not now") as refused:
        answer(methods, "/cancel", "POST", {"user": "ann"})
    assert refused.value.status == status


def test_nothing_is_changed_by_a_get(port: Port) -> None:
    supervisor = Supervisor()
    methods = AdminMethods([port], None, supervisor.order)
    for path in ("/throttle/set", "/throttle/remove", "/cancel"):
        with pytest.raises(Reply) as refused:
            answer(methods, path)
        assert refused.value.status == 405
    assert not supervisor.orders


def test_who_changed_something_is_logged(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "faircall.admin")
    methods = AdminMethods([port], None, Supervisor().order)
    answer(methods, "/cancel", "POST", {"user": "ann"})
    (record,) = [one for one in caplog.records if one.msg == "changed over HTTP"]
    assert isinstance(record.args, Mapping)
    assert record.args["params"] == {"user": "ann"}
