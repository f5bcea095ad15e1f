"""A Hadoop core-site.xml as entries, read as `org.apache.hadoop.conf.Configuration` reads it.

The last of several properties of one name counts, unless an earlier one is final. `${name}` in a
value stands for the property of that name, `${env.NAME}` for the environment. A DOCTYPE is
refused (nothing in such a file needs one, and entities can make a small file huge), and so is an
XInclude, which would be followed to another file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.parsers import expat

from .declaration import ConfigError
from .layers import Entry

MOST_SUBSTITUTIONS = 20  # as Hadoop
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")


def read_core_site(path: Path, environ: Mapping[str, str]) -> list[Entry]:
    """The entries in order of appearance, their values text; ConfigError if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    raw = _Properties(path).read(content)
    texts = {key: str(entry.value) for key, entry in raw.items()}
    return [
        Entry(entry.key, substituted(str(entry.value), texts, environ), entry.place)
        for entry in raw.values()
    ]


def substituted(text: str, texts: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """`text` with its variables replaced, again and again; one without a value stands."""
    for _ in range(MOST_SUBSTITUTIONS):
        replaced = _VARIABLE.sub(lambda match: _variable(match, texts, environ), text)
        if replaced == text:
            break
        text = replaced
    return text


def _variable(match: re.Match[str], texts: Mapping[str, str], environ: Mapping[str, str]) -> str:
    name = match[1]
    if name.startswith("env."):
        return environ.get(name.removeprefix("env."), match[0])
    return texts.get(name, match[0])


class _Properties:
    """Collects `<property>` elements; their parts may be elements or attributes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._final: set[str] = set()
        self._depth: list[str] = []
        self._parts: dict[str, str] = {}
        self._line = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def read(self, content: bytes) -> dict[str, Entry]:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise self._error(expat.ErrorString(error.code)) from None
        return self._entries

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"{self._path}:{self._parser.CurrentLineNumber}: {what}")

    def _doctype(self, *declared: object) -> None:
        raise self._error("a DOCTYPE is not accepted here: remove it")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._depth and name != "configuration":
            raise self._error(f"<{name}> instead of <configuration>: not a Hadoop configuration")
        if name.endswith(":include"):
            raise self._error("an include is not followed: put its properties here")
        self._depth.append(name)
        if name == "property":
            self._parts = dict(attributes)
            self._line = self._parser.CurrentLineNumber
        elif self._depth[-2:-1] == ["property"]:
            self._parts[name] = ""

    def _text(self, text: str) -> None:
        if self._depth[-2:-1] == ["property"]:
            self._parts[self._depth[-1]] += text

    def _end(self, name: str) -> None:
        self._depth.pop()
        key = self._parts.get("name", "").strip()
        if name != "property" or not key or "value" not in self._parts:
            return
        if key not in self._final:
            place = f"{self._path}:{self._line}"
            self._entries.pop(key, None)
            self._entries[key] = Entry(key, self._parts["value"], place)
        if self._parts.get("final", "").strip() == "true":
            self._final.add(key)
