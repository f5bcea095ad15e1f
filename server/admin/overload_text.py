"""Whether a port is overloaded, and by whom: one sentence for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .group_loads import GroupLoad
    from .suspects import Suspect


def sentence(
    is_over: bool,
    busy: float,
    waiting: int,
    refused_per_s: float,
    suspects: Sequence[Suspect],
    groups: Sequence[GroupLoad] = (),
) -> str:
    """`busy` 0 to 1, of all handlers. Where one of several groups is overloaded, it is named."""
    if not is_over:
        return f"Nobody overloads it: {_each(groups) or _load(busy, waiting)}."
    by = " and ".join(map(_named, suspects)) or "nobody alone"
    over = [group for group in groups if group.is_overloaded]
    if not over:
        by = f"Overloaded by {by}" if suspects else "Overloaded, but by nobody alone"
        return f"{by}: {_load(busy, waiting, refused_per_s)}."
    names = " and ".join(group.group for group in over)
    what = f"Groups {names} are" if len(over) > 1 else f"Group {names} is"
    by = f"{what} overloaded by {by}" if suspects else f"{what} overloaded, but by nobody alone"
    others = _each([group for group in groups if not group.is_overloaded])
    return f"{by}: {_each(over)}" + (f"; beside it, {others}." if others else ".")


def _load(busy: float, waiting: int, refused_per_s: float = 0.0) -> str:
    text = f"handlers {busy:.0%} busy, {waiting:,} calls wait"
    return text + (f", {refused_per_s:,.0f} refused a second" if refused_per_s > 0 else "")


def _each(groups: Sequence[GroupLoad]) -> str:
    return "; ".join(
        f"handlers of {each.group} {each.busy:.0%} busy, {each.waiting:,} calls wait"
        + (f", {each.refused_per_s:,.0f} refused a second" if each.refused_per_s > 0 else "")
        for each in groups
    )


def _named(suspect: Suspect) -> str:
    text = f"{suspect.user} ({suspect.part:.0%}, mostly {suspect.method or 'one method'}"
    text += f" of {suspect.context}" if suspect.context else ""
    return f"{text} from {suspect.address})" if suspect.address else f"{text})"
