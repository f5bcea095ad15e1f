"""The page for operators in a browser: what it shows of a real server, and what it changes there.

Needs Chromium (Debian: apt install chromium) and Playwright (pip install 'faircall[browser]').
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircall.server.admin.client import call_admin

from ..daemon import PROBE, Daemon, serving
from ..raw import Raw, request
from .gates import Gate

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright: Any = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: pip install 'faircall[browser]'"
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.filterwarnings("default::ResourceWarning"),
]
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = "<img src=x onerror=document.title='broken'>"
TOKEN = "s3cret"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


GROUPS = """
[handlers.slow]
count = 1
methods = ["hold", "environ*"]
capacity = 8
"""


@contextlib.contextmanager
def daemon_with_page(folder: Path, port: int = 0, settings: str = "") -> Iterator[Daemon]:
    folder.mkdir(exist_ok=True)
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{TOKEN} ops\n")
    listen = ("--set", f"admin.listen=127.0.0.1:{port}", "--set", f"admin.token-file={tokens}")
    config = folder / "x.toml"
    config.write_text(settings)
    more = ("--handlers", "2", "--trust-loopback", "--config", str(config))
    with serving(folder, PROBE, *more, *listen) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_with_page(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


def address(daemon: Daemon) -> str:
    return str(daemon.event("admin listens")["address"]).replace("tcp:", "http:")


@contextlib.contextmanager
def opened(browser: Any, url: str, width: int = 1200, scheme: str = "light") -> Iterator[Any]:
    """The page in a tab of its own, which must not have complained at the end."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: complaints.append(asked.url) if _is_foreign(asked) else None)
    page.goto(url)
    page.wait_for_selector("#levels tr")
    yield page
    context.close()
    assert [text for text in complaints if "net::ERR" not in text and "401" not in text] == []


def _is_foreign(asked: Any) -> bool:
    return not asked.url.startswith("http://127.0.0.1:")


def introduce(raw: Raw, user: str) -> None:
    """Until the user has a row of its own: `callqueue.newcomer-calls` is 20."""
    raw.call("faircall.hello", user)
    for _ in range(21):
        raw.call("echo", 1)


def says(page: Any, place: str, text: str) -> None:
    page.locator(place, has_text=text).first.wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1200, "dark")])
def test_what_a_hostile_user_is_called_is_a_text(
    browser: Any, daemon: Daemon, width: int, scheme: str
) -> None:
    with Raw(daemon.tcp) as raw, opened(browser, address(daemon), width, scheme) as page:
        introduce(raw, HOSTILE)
        says(page, "#users button", HOSTILE)
        says(page, "#sentence", "Nobody overloads it")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#users button", has_text=HOSTILE).focus()
        page.keyboard.press("Enter")
        says(page, "#explain-text", f"{HOSTILE} is at level")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        assert page.locator("main img").count() == 0
        assert page.title() == "faircall"
        assert page.locator("#waiting-plot canvas").count() == 1


def test_calls_are_cancelled_and_limits_set_and_removed_with_a_token(
    browser: Any, daemon: Daemon, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    with Raw(daemon.tcp) as raw, opened(browser, address(daemon)) as page:
        introduce(raw, "ann")
        raw.send({"jsonrpc": "2.0", "method": "hold", "params": [gate.path], "id": 1})
        gate.wait_for_call()
        says(page, "#handlers", "hold")
        page.click("#users button:text-is('ann')")
        page.click("#explain-cancel")
        says(page, "#change-text", "All calls of ann")
        page.keyboard.press("Escape")
        assert daemon.totals()["cancelled"] == 0
        page.click("#users button:text-is('ann')")
        page.click("#explain-cancel")
        page.click("#change-do")
        says(page, "#change-said", "send a token")
        assert daemon.totals()["cancelled"] == 0
        page.fill("#change-token", TOKEN)
        page.keyboard.press("Enter")
        assert raw.receive()["error"]["code"] == -32051
        says(page, "#done", "Cancelled")
        gate.open()
        page.click("#set-limit")
        page.fill("#limit-caller", "ann")
        page.check("#limit-blocked")
        page.click("#change-do")
        says(page, "#rates", "caller ann")
        page.click("#rates button")
        page.click("#change-do")
        says(page, "#no-limits", "No rate is limited")
    assert call_admin(str(daemon.admin_socket), "faircall.get_dispatch_rate")["rates"] == []
    assert {event["by"] for event in daemon.events("changed over HTTP")} == {"ops"}


def test_a_group_of_handlers_that_is_overloaded_is_named(browser: Any, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with (
        daemon_with_page(tmp_path / "daemon", settings=GROUPS) as daemon,
        Raw(daemon.tcp) as raw,
        opened(browser, address(daemon), width=390, scheme="dark") as page,
    ):
        introduce(raw, "ann")
        says(page, "#groups", "slow")
        assert page.locator("#groups tr").count() == 2
        says(page, "#sentence", "Nobody overloads it: handlers of default")
        raw.send(request("hold", gate.path, id=1))
        gate.wait_for_call()
        raw.send(*[request("environment", "HOME", id=number) for number in range(2, 22)])
        says(page, "#sentence", "Group slow is overloaded by ann")
        says(page, "#groups tr", "overloaded")
        says(page, "#groups tr", "1 of 1")
        says(page, "#groups tr", "hold, environ*")
        says(page, "#handlers", ", slow")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        gate.open()


def test_where_all_methods_have_the_same_handlers_no_group_is_shown(
    browser: Any, daemon: Daemon
) -> None:
    with opened(browser, address(daemon)) as page:
        says(page, "#sentence", "Nobody overloads it: handlers ")
        assert not page.locator("#groups-table").is_visible()
        assert not page.locator("#levels-title").is_visible()


def test_it_waits_for_a_server_that_starts_again(browser: Any, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with daemon_with_page(tmp_path / "first") as daemon:
            url = address(daemon)
            page = stack.enter_context(opened(browser, url))
            says(page, "#connection", "connected")
        says(page, "#connection", "No connection")
        with daemon_with_page(tmp_path / "second", int(url.rpartition(":")[2])):
            page.locator("#connection:text-is('connected')").wait_for()
