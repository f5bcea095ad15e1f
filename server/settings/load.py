"""From flags, environment and file to `Settings`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import config
from ..config_groups import HandlerGroup
from ..config_ipc import GROUPS, PortSettings
from . import catalogue
from .bind_address import BindAddress
from .checks import check_groups, check_own, check_port
from .core_site import read_core_site
from .declaration import ConfigError, Mistakes, settings_of
from .derived import first_section
from .draft import Machine
from .layers import Layer, environment_layer, flag_layer
from .resolve import OwnValues, PortValues, sections
from .toml_file import read_toml

CONFIG_VARIABLE = "FAIRCALL_CONFIG"

Flags = Mapping[str, tuple[object, str]]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a daemon's settings come from: the arguments of `load_settings`, as at the start."""

    flags: Flags
    environ: Mapping[str, str]
    path: Path | None = None

    def read(self) -> config.Settings:
        """The settings by all of them; ConfigError."""
        return load_settings(self.flags, self.environ, self.path)

    def read_again(self) -> config.Settings:
        """The same, later. ConfigError also for a file that cannot be read twice, as a pipe."""
        path = config_path(self.path, self.environ)
        if path is not None and path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is no regular file, and cannot be read again: restart")
        return self.read()


def config_path(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file: `path`, or that of FAIRCALL_CONFIG; None if there is neither."""
    if path is None and environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    return path


def load_settings(
    flags: Flags | None = None,
    environ: Mapping[str, str] | None = None,
    path: Path | None = None,
    machine: Machine | None = None,
) -> config.Settings:
    """The settings of a daemon; ConfigError names all that is wrong and where.

    `flags` maps absolute keys to (value, name of the flag). `path` is a TOML file or a Hadoop
    core-site.xml (by its suffix .xml); without one FAIRCALL_CONFIG may name it.
    """
    environ = os.environ if environ is None else environ
    path = config_path(path, environ)
    layers = [flag_layer(flags or {}), environment_layer(environ)]
    if path is not None:
        layers.append(file_layer(path, environ))
    mistakes = Mistakes(error for layer in layers for error in layer.errors())
    checked = [layer.checked() for layer in layers]
    return settle(checked, machine or Machine.this(environ), mistakes)


def file_layer(path: Path, environ: Mapping[str, str]) -> Layer:
    if path.suffix.lower() == ".xml":
        return Layer.of(read_core_site(path, environ), hadoop=True)
    return Layer.of(read_toml(path))


def settle(
    layers: Sequence[Layer], machine: Machine, mistakes: Mistakes | None = None
) -> config.Settings:
    """The settings of checked `layers` on `machine`; ConfigError with `mistakes` and all others."""
    mistakes = mistakes or Mistakes()
    own = OwnValues(layers, machine)
    _read_all(own, [*catalogue.OWN, *own.group_keys()], mistakes)
    ports: dict[int, PortValues] = {}
    with mistakes.collected():
        ports = _ports(own)
    for port in ports.values():
        _read_all(port, catalogue.PORT, mistakes)
    mistakes.tell()
    mistakes.add(check_own(own))
    mistakes.add(check_groups(own))
    for port in ports.values():
        mistakes.add(check_port(port))
    mistakes.tell()
    built = {name: _section(own, name, fields) for name, fields in config.SECTIONS.items()}
    return config.Settings(
        **built,
        groups={name: _section(own, f"handlers.{name}", HandlerGroup) for name in own.groups()},
        ports={number: _port_settings(port, own) for number, port in ports.items()},
        origins=_origins(own, ports),
        notes=_notes(layers, ports),
    )


def _read_all(values: OwnValues | PortValues, keys: Iterable[str], mistakes: Mistakes) -> None:
    """Settle each of `keys`; what is wrong with one does not hide what is wrong with others."""
    for key in keys:
        with mistakes.collected():
            values[key]


def _section(own: OwnValues, name: str, fields: type[Any]) -> Any:
    declared = settings_of(fields)
    return fields(**{field: own[f"{name}.{s.key}"] for field, s in declared.items()})


def _ports(own: OwnValues) -> dict[int, PortValues]:
    """The sections that have an address, in the order of `server.bind`."""
    return {
        number: PortValues(own, number)
        for number in dict.fromkeys(map(_section_of(own), own["server.bind"]))
    }


def _section_of(own: OwnValues) -> Any:
    first = first_section(own.draft)

    def section_of(address: BindAddress) -> int:
        return first if address.section is None else address.section

    return section_of


def _port_settings(port: PortValues, own: OwnValues) -> PortSettings:
    built = {
        group: fields(**{field: port[s.key] for field, s in settings_of(fields).items()})
        for group, fields in GROUPS.items()
    }
    section_of = _section_of(own)
    addresses = tuple(a for a in own["server.bind"] if section_of(a) == port.port)
    return PortSettings(
        port=port.port, addresses=addresses, hadoop_rules=port.hadoop_rules, **built
    )


def _origins(own: OwnValues, ports: Mapping[int, PortValues]) -> dict[str, str]:
    keys = [*catalogue.OWN, *own.group_keys()]
    origins = {key: own.settled[key].origin for key in keys}
    for number, port in ports.items():
        origins |= {f"ipc.{number}.{key}": port.settled[key].origin for key in catalogue.PORT}
    return origins


def _notes(layers: Sequence[Layer], ports: Mapping[int, PortValues]) -> tuple[str, ...]:
    unused = [number for number in sections(layers) if number not in ports]
    return (
        *(note for layer in layers for note in layer.notes),
        *(f"[ipc.{number}] is not used: no address in server.bind" for number in unused),
    )
