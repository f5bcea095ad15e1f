"""docs/configuration.md, written from the declarations: `python -m <this module> FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..config import SECTIONS
from ..config_groups import HandlerGroup
from ..config_ipc import GROUPS
from .declaration import Derived, Setting, settings_of

INTRODUCTION = """\
# Configuration

<!-- Written by `make docs` from the declarations in server/config*.py. -->

    faircall serve myapp:service --config faircall.toml
    faircall check-config --config faircall.toml               # what is set, and where
    faircall check-config --config faircall.toml --effective   # every value, and where it came from

A value is taken from the first of these that has one: a flag of the command line, an environment
variable, the file (`--config`, or `FAIRCALL_CONFIG`), the default. Keys and values that are wrong
are told all at once, each with the place, the key, the value and what would be right.

```toml
[server]
bind = ["tcp://0.0.0.0:8020", "unix:/run/app/rpc.sock"]

[ipc.8020]                              # this port; [ipc] holds for all ports
decay-scheduler.period-ms = 1000
scheduler.priority.levels = 2
faircallqueue.multiplexer.weights = "99,1"
decay-scheduler.thresholds = [90]
```

* **Environment**: the key in capitals, with `_` for `.` and `-`: `limits.max-batch` is
  `FAIRCALL_LIMITS_MAX_BATCH`, `backoff.enable` of port 8020 is `FAIRCALL_IPC_8020_BACKOFF_ENABLE`.
* **Flags**: some settings have one of their own; `--set KEY=VALUE` sets any.
* **Source**, the last column of the tables, says whose key it is: *Hadoop* for one that a
  core-site.xml may hold as well, *faircall* for one of ours. Behind it stand other names of the
  same setting: Hadoop's key if it is not the same, deprecated spellings, a variable of its own.
* **Lists** are TOML lists, or text with commas. **Bytes** may have a unit: `"64 KiB"`, `"16M"`.
* **Reload**: `faircall reload`, SIGHUP and `faircall.refresh_call_queue` read all of this again.
  What is *live* in the column *reload* is in force at once; *restart* keys are reported, and wait.
* **Addresses**: every port that `server.bind` names, and every `[ipc.<port>]` section if it names
  none, is a server of its own. A Unix socket belongs to the section after `#`, else to the first.

## Hadoop

The keys of `[ipc.<port>]` and `[ipc]` are Hadoop's, and Hadoop's class names are understood. A file
that ends in `.xml` is read as a `core-site.xml`, as it is.

A port for which nothing is configured has a fair call queue, in turn, with back-off. A port that
sets `callqueue.impl`, and every port of a core-site.xml, follows Hadoop's rules: the defaults in
the column *by Hadoop's rules* hold.

| what | core-site.xml | TOML, environment, flags |
| --- | --- | --- |
| a flag or a word that cannot be read | the default, as in Hadoop | an error |
| a key nobody knows | ignored, unless it is nearly one of ours | an error |
| two spellings of one setting (`faircallqueue.decay-scheduler.period-ms`) | the deprecated one, \
unless 0 | an error |
| `backoff.enable` of a port and of all ports | on if one of them is true | the port's |
| the scheduler, if FairCallQueue is set for all ports | DefaultRpcScheduler | DecayRpcScheduler |
| the scheduler, if the port sets FairCallQueue and all ports a scheduler | DecayRpcScheduler \
| that of all ports |
| `decay-scheduler.metrics.top.user.count` | read without `ipc.<port>.` | with it |
| `decay-scheduler.thresholds` | integers of any size | percents from 0 to 100 |
| a decay factor NaN, a multiplexer weight below 1 | an error | an error |
"""

OWN_HEAD = ("key", "value", "default", "meaning", "reload", "source")
PORT_HEAD = ("key", "value", "default", "by Hadoop's rules", "meaning", "reload", "source")


def page() -> Iterator[str]:
    """The lines of the page."""
    yield INTRODUCTION
    for section, fields in SECTIONS.items():
        yield f"## `[{section}]`\n"
        yield from _table(fields, OWN_HEAD)
        if section == "handlers":
            yield "## `[handlers.<group>]`\n"
            yield from _table(HandlerGroup, OWN_HEAD)
    yield "## `[ipc.<port>]` and `[ipc]`\n"
    for fields in GROUPS.values():
        yield f"### {fields.__name__}\n"
        yield from _table(fields, PORT_HEAD)


def _table(fields: type[Any], head: tuple[str, ...]) -> Iterator[str]:
    yield f"{(fields.__doc__ or '').splitlines()[0]}\n"
    rows = [_cells(declared) for declared in settings_of(fields).values()]
    if rows:
        yield _line(head)
        yield _line(("---",) * len(head))
        yield from (_line(tuple(cells[name] for name in head)) for cells in rows)
        yield ""


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cells(declared: Setting) -> dict[str, str]:
    hadoop = declared.hadoop_default
    return {
        "key": f"`{declared.key}`",
        "value": value_text(declared),
        "default": default_text(declared, declared.default),
        "by Hadoop's rules": "" if hadoop is None else default_text(declared, hadoop),
        "meaning": declared.doc,
        "reload": "live" if declared.live else "restart",
        "source": _source(declared),
    }


def value_text(declared: Setting) -> str:
    """Kind, unit and range: `integer, ms, 0..86400000`."""
    unit = "" if declared.unit == declared.kind.name else declared.unit
    return ", ".join(filter(None, (declared.kind.name, unit, declared.range())))


def default_text(declared: Setting, default: object) -> str:
    if isinstance(default, Derived):
        return default.text
    return f"`{declared.kind.show(default)}`"


def _source(declared: Setting) -> str:
    """Whose key it is, and its other names."""
    names = [f"`{name}`" for name in declared.old_names]
    if declared.hadoop and not declared.hadoop.endswith(declared.key):
        names.insert(0, f"`{declared.hadoop}`")
    if declared.alias:
        names.append(f"`{declared.alias}`")
    if declared.environ:
        names.append(f"`{declared.environ}`")
    return " ".join(["Hadoop" if declared.hadoop else "faircall", *names])


def main() -> None:
    Path(sys.argv[1]).write_text("\n".join(page()))


if __name__ == "__main__":
    main()
