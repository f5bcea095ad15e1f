"""Which of the written values counts for a key, and what the default is where none does.

The first layer that says anything counts. Within a layer a port's key counts before that of all
ports; two spellings of one value are an error. A core-site.xml follows Hadoop to the letter:

    a deprecated spelling counts before the current one, unless its value is 0 or empty
    a value that cannot be read as a flag or a word counts as not written
    back-off is on if either the port's key or that of all ports is true
    a port whose own queue key says FairCallQueue has a DecayRpcScheduler, whatever the scheduler
    key of all ports says; a queue key of all ports brings no scheduler along
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import catalogue
from .declaration import Because, ConfigError, Derived, Setting
from .draft import Draft, Machine
from .kinds import UNSET
from .layers import Entry, Layer

QUEUE, SCHEDULER = "callqueue.impl", "scheduler.impl"
ALL_HANDLERS = "handlers"  # of a draft: how many processes all groups have


@dataclass(frozen=True, slots=True)
class Settled:
    """A value and where it came from: a place, or "default" with the reason for this one."""

    value: Any
    origin: str
    entry: Entry | None = None


class OwnValues:
    """The values of the absolute keys, each settled when it is first asked for."""

    def __init__(self, layers: Sequence[Layer], machine: Machine) -> None:
        self.layers = layers
        self.settled: dict[str, Settled] = {}
        is_hadoops = any(layer.hadoop for layer in layers)
        self.draft = Draft(machine, sections(layers), self.__getitem__, self.is_given, is_hadoops)

    def __getitem__(self, key: str) -> Any:
        if key == ALL_HANDLERS:
            return self._all_handlers()
        if key not in self.settled:
            declared = catalogue.OWN.get(key) or catalogue.declaration(key)
            assert declared is not None
            names = catalogue.own_names(key, declared)
            found = _first(_read(entries, declared) for entries in _written(self.layers, names))
            self.settled[key] = found or default(declared, self.draft, hadoop_rules=False)
        return self.settled[key].value

    def is_given(self, key: str) -> bool:
        """Whether somebody wrote the setting down."""
        return self[key] is not None and self.settled[key].entry is not None

    def groups(self) -> tuple[str, ...]:
        """The names of the groups of handlers, in order of first appearance."""
        split = (catalogue.group_and_key(key) for layer in self.layers for key in layer.entries)
        return tuple(dict.fromkeys(name for name, _ in filter(None, split)))

    def group_keys(self) -> Iterator[str]:
        """Every key of every group."""
        return (f"handlers.{name}.{key}" for name in self.groups() for key in catalogue.GROUP)

    def _all_handlers(self) -> int:
        names = self.groups()
        counts = [self[f"handlers.{name}.count"] for name in names]
        if not any("*" in self[f"handlers.{name}.methods"] for name in names):
            counts.append(self["handlers.count"])
        return sum(counts)


class PortValues:
    """The values of the keys of one port; absolute keys are passed on to `own`."""

    def __init__(self, own: OwnValues, port: int) -> None:
        self.own = own
        self.port = port
        self.settled: dict[str, Settled] = {}
        queue = self._find(catalogue.PORT[QUEUE])
        self.hadoop_rules = queue is not None or any(layer.hadoop for layer in own.layers)
        everyones = [layer.entries.get(f"ipc.{QUEUE}") for layer in own.layers if layer.hadoop]
        inherited = queue is not None and queue.entry in everyones
        self.draft = replace(own.draft, settle=self.__getitem__, queue_of_all_ports=inherited)

    def __getitem__(self, key: str) -> Any:
        if key not in catalogue.PORT:
            return self.own[key]
        if key not in self.settled:
            declared = catalogue.PORT[key]
            found = self._find(declared)
            self.settled[key] = found or default(declared, self.draft, self.hadoop_rules)
        return self.settled[key].value

    def _find(self, declared: Setting) -> Settled | None:
        return _first(self._find_in(layer, declared) for layer in self.own.layers)

    def _find_in(self, layer: Layer, declared: Setting) -> Settled | None:
        ports_own, everyones = (self._find_at(layer, declared, p) for p in self._prefixes())
        if layer.hadoop and declared.any_true and everyones and everyones.value:
            return everyones
        if layer.hadoop and declared.key == SCHEDULER and not ports_own and self._infers(layer):
            return None
        return ports_own or everyones

    def _find_at(self, layer: Layer, declared: Setting, prefix: str) -> Settled | None:
        if layer.hadoop and declared.hadoop_absolute:
            prefix = ""
        names = [prefix + name for name in catalogue.port_names(declared)]
        return _first(_read(entries, declared) for entries in _written([layer], names))

    def _prefixes(self) -> tuple[str, str]:
        return f"ipc.{self.port}.", "ipc."

    def _infers(self, layer: Layer) -> bool:
        """Whether the port's own queue key brings its scheduler along."""
        queue = self._find_at(layer, catalogue.PORT[QUEUE], self._prefixes()[0])
        return queue is not None and queue.value == "FairCallQueue"


def sections(layers: Iterable[Layer]) -> tuple[int, ...]:
    """The ports that have a key or a table of their own, in order of first appearance."""
    split = (catalogue.port_and_key(key) for layer in layers for key in layer.entries)
    return tuple(dict.fromkeys(port for port, _ in filter(None, split) if port is not None))


def default(declared: Setting, draft: Draft, hadoop_rules: bool) -> Settled:
    value = declared.default_under(hadoop_rules)
    origin = "default" if value is declared.default else "default by Hadoop's rules"
    if isinstance(value, Derived):
        value = value.rule(draft)
    if isinstance(value, Because):
        return Settled(value.value, f"{origin}: {value.why}")
    return Settled(value, origin)


def _first(found: Iterable[Settled | None]) -> Settled | None:
    return next(filter(None, found), None)


def _written(layers: Iterable[Layer], names: Sequence[str]) -> Iterator[tuple[Entry, bool]]:
    """For each layer what it holds under any of `names`, and whether to read it as Hadoop does."""
    for layer in layers:
        entries = [layer.entries[name] for name in names if name in layer.entries]
        if len(entries) > 1 and not layer.hadoop:
            one, other = entries[:2]
            raise ConfigError(f"{one}: {other.key} ({other.place}) is the same setting: keep one")
        yield from ((entry, layer.hadoop) for entry in entries)


def _read(written: tuple[Entry, bool], declared: Setting) -> Settled | None:
    """The value of an entry; None if it counts as not written; ConfigError if it is wrong."""
    entry, hadoop = written
    reader = declared.kind.read
    if hadoop and declared.kind.read_hadoop:
        reader = declared.kind.read_hadoop
    try:
        value = reader(entry.value)
        if value is UNSET or (hadoop and not value and _is_old(entry, declared)):
            return None
        declared.check(value)
    except ValueError as error:
        raise ConfigError(f"{entry}: {error}") from None
    return Settled(value, entry.place, entry)


def _is_old(entry: Entry, declared: Setting) -> bool:
    return any(entry.key.endswith(name) for name in declared.old_names)
