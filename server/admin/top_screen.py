"""`faircall top`: who does how much, live, on a terminal. Needs textual, the extra `top`.

    s  sort by the next column      space  pause      Enter  explain the user      q  quit

It asks the daemon's admin socket again and again, in a thread, so that a daemon that is slow to
answer does not stop the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from ..log import escape
from .client import call_admin
from .text import cell
from .text import table as table_lines
from .users_text import COLUMNS, explain_lines, group_rows, user_rows

SORTS = ("share", "cost", "calls", "waiting", "refused")
SHOWN = 200  # users, one by one
TIMEOUT_S = 10.0

Ask = Callable[[str, Mapping[str, Any]], Any]


class Explanation(ModalScreen[None]):
    """What `faircall explain` says; any of the keys goes back."""

    CSS = """
    Explanation { align: center middle; }
    #explained { width: 96%; height: 90%; background: $surface; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "app.pop_screen", "Back"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="explained"):
            yield Static(Text(self.text))
        yield Footer()


class TopScreen(App[None]):
    """`ask(method, params)` is answered by the daemon; OSError if it does not."""

    CSS = """
    #state { height: auto; padding: 0 1; text-style: bold; }
    #state.overloaded { background: $error; color: $text; }
    #groups { height: auto; max-height: 8; padding: 1 0 0 0; display: none; }
    #groups.several { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort"),
        Binding("space", "pause", "Pause"),
        Binding("enter", "explain", "Explain", priority=True),
        Binding("q", "quit", "Quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, socket: str, every_s: float, sort: str = "share", ask: Ask | None = None
    ) -> None:
        super().__init__()
        self._ask = ask or (lambda method, params: call_admin(socket, method, TIMEOUT_S, params))
        self._every_s, self.sort_key, self.paused = every_s, sort, False
        self._names: list[str] = []  # of the rows; "" where there is nothing to explain

    def compose(self) -> ComposeResult:
        self._state = Static("", id="state")  # kept: a query looks at the screen on top only
        self._groups = Static("", id="groups")
        self._table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        yield self._state
        yield self._groups
        yield self._table
        yield Footer()

    def on_mount(self) -> None:
        table = self._table
        for name in ("port", *COLUMNS):
            table.add_column(name, key=name)
        self.look()
        self.set_interval(self._every_s, self.look)

    def look(self) -> None:
        """Ask, unless it is paused or the last question is not answered yet."""
        if not self.paused:
            self.run_worker(self._fetch, thread=True, group="look", exclusive=True)

    def _fetch(self) -> None:
        try:
            found = self._ask("faircall.users", {"sort": self.sort_key, "top": SHOWN})
        except OSError as error:
            self.call_from_thread(self._lost, error.strerror or str(error))
        else:
            self.call_from_thread(self.show, found)

    def _lost(self, why: str) -> None:
        state = self._state
        state.update(Text(f"The daemon does not answer: {why}. What stands below is old."))
        state.add_class("overloaded")

    def show(self, found: Mapping[str, Any]) -> None:
        """The answer of `faircall.users`; the cursor stays with its user."""
        state = self._state
        sentences = [
            f"port {port['port']}: {port['overload']['sentence']}" for port in found["ports"]
        ]
        state.update(Text("\n".join([*map(escape, sentences), self._mode()])))
        state.set_class(
            any(port["overload"]["is_overloaded"] for port in found["ports"]), "overloaded"
        )
        groups = [row for port in found["ports"] for row in of_groups(port, len(found["ports"]))]
        self._groups.update(Text("\n".join(table_lines(groups)) if groups else "", no_wrap=True))
        self._groups.set_class(bool(groups), "several")
        table = self._table
        selected = self.selected()
        rows = [(port["port"], row) for port in found["ports"] for row in user_rows(port)]
        table.clear()
        for port, row in rows:
            cells = [cell(name, row[name]) for name in COLUMNS]
            table.add_row(Text(str(port)), *(Text(text) for text in cells))
        self._names = [row["user"] if row["level"] is not None else "" for _, row in rows]
        if selected and selected in self._names:
            table.move_cursor(row=self._names.index(selected))

    def _mode(self) -> str:
        return f"sorted by {self.sort_key}" + ("  PAUSED" if self.paused else "")

    def selected(self) -> str:
        """The user under the cursor; "" where there is none."""
        at = self._table.cursor_row
        return self._names[at] if 0 <= at < len(self._names) else ""

    def action_sort(self) -> None:
        self.sort_key = SORTS[(SORTS.index(self.sort_key) + 1) % len(SORTS)]
        self.paused = False
        self.look()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.notify("paused: what you see stands still" if self.paused else "goes on")
        self.look()

    def action_explain(self) -> None:
        if isinstance(self.screen, Explanation):
            self.pop_screen()
        elif name := self.selected():
            self.run_worker(lambda: self._explain(name), thread=True, group="explain")

    def _explain(self, name: str) -> None:
        try:
            found = self._ask("faircall.explain", {"user": name})
        except OSError as error:
            text = error.strerror or str(error)
        else:
            text = "\n".join(explain_lines(found))
        self.call_from_thread(self.push_screen, Explanation(text))


def of_groups(port: Mapping[str, Any], ports: int) -> list[dict[str, Any]]:
    """A row for each group of handlers, if there are several; with the port's number in front, if
    there are several ports."""
    number = {"port": port["port"]} if ports > 1 else {}
    return [{**number, **row} for row in group_rows(port)]
