"""All declared keys, under every name that they can be written by.

Own keys are absolute: `limits.max-batch`, and so are those of a group of handlers:
`handlers.gpu.count`. The keys of a port are relative; written, they are
`ipc.8020.callqueue.impl` for one port and `ipc.callqueue.impl` for all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from ...workers.context import DEFAULT_GROUP
from ..config import SECTIONS
from ..config_groups import HandlerGroup
from ..config_ipc import GROUPS
from .declaration import Setting, settings_of

OWN: Mapping[str, Setting] = {
    f"{section}.{declared.key}": declared
    for section, fields in SECTIONS.items()
    for declared in settings_of(fields).values()
}
PORT: Mapping[str, Setting] = {
    declared.key: declared
    for fields in GROUPS.values()
    for declared in settings_of(fields).values()
}
GROUP: Mapping[str, Setting] = {
    declared.key: declared for declared in settings_of(HandlerGroup).values()
}
_TABLES = {*SECTIONS, "ipc"}
_GROUP = re.compile(r"handlers\.([A-Za-z][A-Za-z0-9_-]*)(?:\.(.+))?")
_IPC = re.compile(r"ipc\.(?:([0-9]+)(?:\.|$))?(.*)")


def port_and_key(key: str) -> tuple[int | None, str] | None:
    """`ipc.8020.x` -> (8020, x); `ipc.x` -> (None, x); None for a key of another section."""
    match = _IPC.fullmatch(key)
    return match and (int(match[1]) if match[1] else None, match[2])


def group_and_key(key: str) -> tuple[str, str] | None:
    """`handlers.gpu.count` -> (gpu, count); `handlers.gpu` -> (gpu, ""); None if it is none of a
    group: no group may have the name of a key of `[handlers]`, or DEFAULT_GROUP."""
    match = _GROUP.fullmatch(key)
    if not match or match[1] == DEFAULT_GROUP or f"handlers.{match[1]}" in ABSOLUTE:
        return None
    return match[1], match[2] or ""


def is_whole(key: str) -> bool:
    """Whether a table of that name is one value."""
    split = group_and_key(key)
    return split is not None and split[1] == "env"


def own_names(key: str, declared: Setting) -> tuple[str, ...]:
    """Every absolute spelling of an own key: ours, its alias, then Hadoop's."""
    section = key.partition(".")[0]
    alias = declared.alias and f"{section}.{declared.alias}"
    return tuple(dict.fromkeys(filter(None, (key, alias, declared.hadoop))))


def port_names(declared: Setting) -> tuple[str, ...]:
    """Every relative spelling of a key of a port: Hadoop's deprecated ones first."""
    return (*declared.old_names, declared.key)


def _absolute() -> Iterator[tuple[str, Setting]]:
    for key, declared in OWN.items():
        yield from ((name, declared) for name in own_names(key, declared))
    yield from ((s.hadoop, s) for s in PORT.values() if s.hadoop_absolute)


ABSOLUTE: Mapping[str, Setting] = dict(_absolute())
RELATIVE: Mapping[str, Setting] = {
    name: declared for declared in PORT.values() for name in port_names(declared)
}


def declaration(key: str) -> Setting | None:
    """The declaration of a key under any of its names; None if there is none."""
    split, group = port_and_key(key), group_and_key(key)
    if group:
        return GROUP.get(group[1])
    return ABSOLUTE.get(key) or (RELATIVE.get(split[1]) if split else None)


def is_table(key: str) -> bool:
    """Whether `key` is the name of a table: `limits`, `ipc`, `ipc.8020`."""
    port = key.removeprefix("ipc.")
    return key in _TABLES or (port != key and port.isdecimal() and int(port) <= 65535)


def is_known(key: str) -> bool:
    split = port_and_key(key)
    in_range = split is None or split[0] is None or split[0] <= 65535
    return is_table(key) or (in_range and declaration(key) is not None)


def nearest(key: str, likeness: float = 0.6) -> str | None:
    """The known key that is most like `key`: one of that name in another section, else a close one.

    Without `ipc.` and port where `key` has them.
    """
    group = group_and_key(key)
    if group and group[1]:
        in_group = difflib.get_close_matches(group[1], GROUP, 1, likeness)
        return f"handlers.{group[0]}.{in_group[0]}" if in_group else None
    split = port_and_key(key)
    wanted = split[1] if split else key
    tails = (wanted, wanted.partition(".")[2])
    exact = [_BY_NAME[tail] for tail in tails if tail in _BY_NAME]
    close = [
        *difflib.get_close_matches(wanted, _IN_IPC if split else list(ABSOLUTE), 1, likeness),
        *(_BY_NAME[c] for c in difflib.get_close_matches(wanted, _BY_NAME, 1, likeness)),
    ]
    return next(iter([*exact, *close]), None)


_IN_IPC = [*RELATIVE, *(a.removeprefix("ipc.") for a in ABSOLUTE if a.startswith("ipc."))]
_BY_NAME = {name: f"ipc.{name}" for name in sorted(RELATIVE)}
_BY_NAME |= {name.partition(".")[2]: name for name in sorted(OWN)}


def environment_name(key: str) -> str:
    """`limits.max-batch` -> FAIRCALL_LIMITS_MAX_BATCH."""
    declared = OWN.get(key)
    if declared is not None and declared.environ:
        return declared.environ
    return "FAIRCALL_" + re.sub(r"[.-]", "_", key).upper()


ENVIRONMENT_NAMES: Mapping[str, str] = {
    environment_name(key): key
    for key in (*sorted(ABSOLUTE), *(f"ipc.{name}" for name in sorted(RELATIVE)))
}
