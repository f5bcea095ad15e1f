"""`faircall users`, `explain` and `dump` for people: sentences, then tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..groups import REST
from ..log import escape
from .text import table

Row = Mapping[str, Any]
COUNTED = {"queues": "calls wait", "requests": "calls in flight"}
COLUMNS = (
    "user", "share", "cost_per_s", "level", "calls_per_s", "waiting", "running", "wait_p99_ms",
    "refused_per_s",
)  # fmt: skip


def users_lines(found: Row) -> Iterator[str]:
    """Per port: whether somebody overloads it, groups of handlers, the first users, the others."""
    for number, port in enumerate(found["ports"]):
        if number:
            yield ""
        yield f"port {port['port']}: {escape(port['overload']['sentence'])}"
        if rows := group_rows(port):
            yield from table(rows)
            yield ""
        yield from table([_picked(user, COLUMNS) for user in user_rows(port)])


def group_rows(port: Row) -> list[dict[str, Any]]:
    """A row for each group of handlers; none where there is only one."""
    return [
        {
            "group": group["group"],
            "waiting": group["waiting"],
            "held": group["held"],
            "running": f"{group['running']} of {group['handlers']}",
            "busy_share": group["busy"],
            "refused_per_s": group["refused_per_s"],
            "methods": "all others" if group["methods"] == [REST] else ", ".join(group["methods"]),
        }
        for group in port["overload"]["groups"]
    ]


def user_rows(port: Row) -> list[dict[str, Any]]:
    """The first users, and a row of all others if there are any."""
    rows, others = list(port["top"]), port["others"]
    counts = ("users", "calls_per_s", "waiting", "running")
    if any(others[name] for name in counts):  # users of late without a row: only figures
        label = f"({others['users']:,} others)" if others["users"] else "(others)"
        rows.append({**others, "user": label, "level": None, "wait_p99_ms": None})
    return rows


def explain_lines(found: Row) -> Iterator[str]:
    """Per port: sentences about the level, what it does, what it waits for, what helps."""
    for number, port in enumerate(found["ports"]):
        if number:
            yield ""
        yield from _explained(port)


def _explained(port: Row) -> Iterator[str]:
    user, standing = escape(port["user"]), port["standing"]
    if standing is None:
        yield f"{user} at port {port['port']}: {escape(port['note'])}"
    else:
        yield f"{user} is at level {standing['level']} of port {port['port']}: {standing['why']}."
        yield from _forecast(standing)
        yield _activity(port["rates"])
    yield from _waits(port["waits"])
    for refused in port["refused"]:
        yield f"Refused, {refused['per_s']:,.1f}/s: {refused['reason']}, by {refused['rule']}."
    for name, label in (("methods", "method"), ("contexts", "context"), ("addresses", "address")):
        rows = [{**row, label: row[label] or NOTHING[label]} for row in port[name]]
        if rows:
            yield ""
            yield from table(rows)
    if port["exempt"]:
        yield ""
        yield "What would change its level:"
        for text in port["exempt"]:
            yield f"  {escape(text)}"


NOTHING = {"method": "(none)", "context": "(no context)", "address": "(Unix socket)"}


def _forecast(standing: Row) -> Iterator[str]:
    yield (
        f"Its cost, decayed: {standing['decayed']:,} of {standing['total']:,}"
        f" ({standing['swept']:,} at the last sweep)."
    )
    idle = standing["if_idle"]
    if idle is None or not standing["level"]:
        return
    period_s = idle["period_ms"] / 1000
    better, best = idle["sweeps_until_better"], idle["sweeps_until_level_0"]
    if better is None or best is None:
        yield "If it stopped now and the others went on, its level would not get better soon."
        return
    yield (
        f"If it stopped now and the others went on: better after {_sweeps(better, period_s)}, "
        f"level 0 after {_sweeps(best, period_s)}."
    )


def _sweeps(count: int, period_s: float) -> str:
    return f"{count} sweep{'s' if count != 1 else ''} ({count * period_s:g} s)"


def _activity(rates: Row) -> str:
    text = (
        f"In the last ten seconds: {rates['calls_per_s']:,.1f} calls/s, cost"
        f" {rates['cost_per_s']:,.1f}/s, {rates['refused_per_s']:,.1f} refused/s"
    )
    if rates["wait_p99_ms"] is not None:
        text += f"; 99 of 100 calls waited at most {rates['wait_p99_ms']:,.1f} ms"
    return f"{text}."


def _waits(waits: Row) -> Iterator[str]:
    if not waits["waiting"]:
        yield f"Nothing of it waits; {waits['running']:,} of its calls run."
        return
    levels = ", ".join(f"{at['waiting']:,} at level {at['level']}" for at in waits["levels"])
    yield (
        f"{waits['waiting']:,} of its calls wait ({levels}), the oldest for"
        f" {waits['oldest_ms'] / 1000:,.1f} s; {waits['running']:,} run."
    )
    for held in waits["held"]:
        yield f"  {held['calls']:,} of them are held by the limit of {escape(held['limiter'])}."


def dump_lines(found: Row) -> Iterator[str]:
    """Per port: a table, and how much of it was left out."""
    for number, port in enumerate(found["ports"]):
        if number:
            yield ""
        yield f"port {port['port']}: {port['total']:,} {COUNTED.get(port['what'], port['what'])}"
        if port["rows"]:
            yield from table(port["rows"])
        if port["total"] > len(port["rows"]):
            yield f"  ({port['total'] - len(port['rows']):,} more)"


def as_csv(rows: Sequence[Row]) -> str:
    """A head, and a line for each row; a text that a spreadsheet would calculate is quoted."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(row.get(name)) for name in names] for row in rows)
    return out.getvalue().rstrip("\n")


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    shown = escape(value)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown


def _picked(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}
