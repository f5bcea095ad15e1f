"""What one declaration of a setting says; `faircall.server.config` holds the declarations."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .kinds import BYTES, INTEGER, Kind

if TYPE_CHECKING:
    from .draft import Draft


class ConfigError(ValueError):
    """A setting is wrong; the message names the place, the key, the value and what would be right.

    For the operator, as it stands: no caller adds to it.
    """


class Mistakes:
    """Collects ConfigErrors, so that all of them are told at once, each once."""

    def __init__(self, found: Iterable[ConfigError] = ()) -> None:
        self._texts = dict.fromkeys(map(str, found))

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """What the block raises is kept for later."""
        try:
            yield
        except ConfigError as error:
            self._texts[str(error)] = None

    def add(self, errors: Iterable[ConfigError]) -> None:
        self._texts |= dict.fromkeys(map(str, errors))

    def tell(self) -> None:
        """ConfigError, a line for each, if there are any."""
        if len(self._texts) > 1:
            lines = "".join(f"\n  {text}" for text in self._texts)
            raise ConfigError(f"{len(self._texts)} things are wrong:{lines}")
        if self._texts:
            raise ConfigError(*self._texts)


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that is worked out from other settings or from the machine.

    `rule` returns the value, or a `Because`; `text` is what the reference page says about it.
    """

    text: str
    rule: Callable[[Draft], object]


@dataclass(frozen=True, slots=True)
class Because:
    """A derived value with the sentence that says why it is this one."""

    value: object
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One declaration. `key` is relative to its table.

    Bounds hold for every element where the kind is a list: `least` and `most` belong to the range,
    `above` and `below` do not. `hadoop` is the key in Hadoop, empty where there is none: absolute
    for our own sections, relative to `ipc.<port>.` and `ipc.` for the settings of a port, unless
    `hadoop_absolute`. `hadoop_default` is the default under Hadoop's rules, where it differs;
    `old_names` are Hadoop's deprecated spellings. `any_true`: in a core-site.xml a true value on
    either level wins. `alias` is a second name in the same table. `environ` is the name of the
    variable, where it is not the usual one. `live`: a reload puts another value in force while the
    server runs; any other key needs a restart.
    """

    key: str
    kind: Kind
    default: object
    doc: str
    unit: str = ""
    hadoop: str = ""
    hadoop_absolute: bool = False
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    old_names: tuple[str, ...] = ()
    hadoop_default: object = None
    any_true: bool = False
    environ: str = ""
    live: bool = False
    alias: str = ""

    def default_under(self, hadoop_rules: bool) -> object:
        hadoop = hadoop_rules and self.hadoop_default is not None
        return self.hadoop_default if hadoop else self.default

    def check(self, value: object) -> None:
        """ValueError with the bound that `value`, or an element of it, does not keep."""
        for item in value if isinstance(value, tuple) else (value,):
            self._check_item(item)

    def _check_item(self, item: Any) -> None:
        if self.least is not None and item < self.least:
            raise ValueError(f"must be at least {self.least}")
        if self.most is not None and item > self.most:
            raise ValueError(f"must be at most {self.most}")
        if self.above is not None and item <= self.above:
            raise ValueError(f"must be above {self.above}")
        if self.below is not None and item >= self.below:
            raise ValueError(f"must be below {self.below}")

    def range(self) -> str:
        """The bounds as text, empty where there are none: `1..31`, `> 0 and < 1`, `>= 0`."""
        show = self.kind.show if self.kind is BYTES else str
        if self.least is not None and self.most is not None:
            return f"{show(self.least)}..{show(self.most)}".replace('"', "")
        bounds = ((">=", self.least), (">", self.above), ("<", self.below), ("<=", self.most))
        return " and ".join(f"{sign} {show(bound)}" for sign, bound in bounds if bound is not None)


def setting(kind: Kind, default: object, doc: str, **declared: Any) -> Any:
    """A dataclass field that carries its `Setting`; the key follows from the field's name."""
    metadata = {"kind": kind, "default": default, "doc": doc, **declared}
    if isinstance(default, Derived):
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def integer(default: object, doc: str, least: int, most: int, **declared: Any) -> Any:
    """A whole number of things."""
    return setting(INTEGER, default, doc, least=least, most=most, **declared)


def ms(default: object, doc: str, least: int, most: int, **declared: Any) -> Any:
    """A time in milliseconds."""
    return setting(INTEGER, default, doc, unit="ms", least=least, most=most, **declared)


def size(default: object, doc: str, least: int, most: int, **declared: Any) -> Any:
    """A number of bytes."""
    return setting(BYTES, default, doc, unit="bytes", least=least, most=most, **declared)


def settings_of(section: type[Any]) -> dict[str, Setting]:
    """Field name to declaration, in the order of the dataclass `section`."""
    return {
        f.name: Setting(**{"key": f.name.replace("_", "-"), **f.metadata})
        for f in dataclasses.fields(section)
        if "kind" in f.metadata
    }
