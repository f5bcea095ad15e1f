"""What was written, and where: flags over environment over file.

A layer maps absolute keys to entries as they were written; `errors` are those that nobody
declared. A core-site.xml holds the keys of a whole cluster: there only a near miss is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from . import catalogue
from .declaration import ConfigError
from .kinds import UNSET

NEAR_MISS = 0.85
_PORT_KEY = re.compile(r"FAIRCALL_IPC_([0-9]+)_(.+)")
# What Kubernetes puts into the environment for a Service called faircall, faircall-admin, ...
_KUBERNETES = re.compile(r".*_(SERVICE_(HOST|PORT\w*)|PORT(_[0-9]+_(TCP|UDP|SCTP)\w*)?)")


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as it was written; `place` is "faircall.toml:3", "--readers", "FAIRCALL_X"."""

    key: str
    value: object
    place: str

    def __str__(self) -> str:
        text = json.dumps(self.value, ensure_ascii=False, default=str)
        return f"{self.place}: {self.key} = {text if len(text) <= 80 else text[:77] + '...'}"


@dataclass(frozen=True, slots=True)
class Layer:
    """`hadoop`: the entries come from a core-site.xml and are read as Hadoop reads them."""

    entries: Mapping[str, Entry]
    hadoop: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry], hadoop: bool = False) -> Layer:
        return cls({entry.key: entry for entry in entries}, hadoop)

    def errors(self) -> Iterator[ConfigError]:
        """Keys that nobody knows; in a core-site.xml only those that are nearly one of ours."""
        unknown = (e for e in self.entries.values() if not self._is_known(e))
        return filter(None, map(self._refusal, unknown))

    @staticmethod
    def _is_known(entry: Entry) -> bool:
        is_empty_group = entry.value == {} and catalogue.group_and_key(entry.key) is not None
        return is_empty_group or catalogue.is_known(entry.key)

    def checked(self) -> Layer:
        """Itself, without what it may hold and does not concern us."""
        if not self.hadoop:
            return self
        known = {k: e for k, e in self.entries.items() if has_effect_in_hadoop(k)}
        ignored = sorted(k for k in self.entries if k.startswith("ipc.") and k not in known)
        notes = [f"no effect here: {', '.join(ignored)}"] if ignored else []
        return Layer(known, True, (*notes, *filter(None, map(_not_understood, known.values()))))

    def _refusal(self, entry: Entry) -> ConfigError | None:
        near = catalogue.nearest(entry.key, NEAR_MISS if self.hadoop else 0.6)
        if self.hadoop and not (near and entry.key.startswith("ipc.")):
            return None
        hint = f"; did you mean {near}?" if near else ""
        return ConfigError(f"{entry}: unknown key{hint}")


def has_effect_in_hadoop(key: str) -> bool:
    declared = catalogue.declaration(key)
    return declared is not None and (not declared.hadoop_absolute or key == declared.hadoop)


def _not_understood(entry: Entry) -> str | None:
    """A note on a value that Hadoop takes for not written because it cannot read it."""
    declared = catalogue.declaration(entry.key)
    reader = declared.kind.read_hadoop if declared else None
    try:
        unset = reader is not None and str(entry.value).strip() and reader(entry.value) is UNSET
    except ValueError:
        return None
    return f"{entry}: not understood, so the default holds, as in Hadoop" if unset else None


def flag_layer(flags: Mapping[str, tuple[object, str]]) -> Layer:
    """From absolute keys to (value, the flag's name)."""
    return Layer.of(Entry(key, value, flag) for key, (value, flag) in flags.items())


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Every variable FAIRCALL_<SECTION>_... that is not empty; others are not ours to judge."""
    named = {name: key for name, text in environ.items() if text and (key := _key_of(name))}
    return Layer.of(Entry(key, environ[name], name) for name, key in sorted(named.items()))


def _key_of(name: str) -> str | None:
    """The key that a variable sets, or what it would set if there were one; None: not ours."""
    if name in catalogue.ENVIRONMENT_NAMES:
        return catalogue.ENVIRONMENT_NAMES[name]
    if match := _PORT_KEY.fullmatch(name):
        everyones = _key_of(f"FAIRCALL_IPC_{match[2]}") or ""
        return f"ipc.{match[1]}.{everyones.removeprefix('ipc.')}"
    section, _, rest = name.removeprefix("FAIRCALL_").lower().partition("_")
    concerns_us = name.startswith("FAIRCALL_") and catalogue.is_known(section) and rest
    if not concerns_us or _KUBERNETES.fullmatch(name):
        return None
    return f"{section}.{rest.replace('_', '-')}"
