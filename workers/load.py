"""Finding the service that a command line names: `package.module:name` or `path/to/file.py:name`.

The name is `service` if left out.  Whatever goes wrong is a ServiceError: one sentence that
says where to look, for code raised by the user's module with the file and line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from .blame import what_was_raised
from .errors import ServiceError
from .service import Service

DEFAULT_ATTRIBUTE: Final = "service"


def load_service(target: str) -> Service:
    """Imports the module and returns its service, every method ready to be called."""
    importlib.invalidate_caches()  # of folders, as they were when the daemon started
    where, _, attribute = target.partition(":")
    if not where:
        raise ServiceError(f"{target!r} names no module: write package.module:attribute")
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    service = _service_of(module, where, attribute or DEFAULT_ATTRIBUTE)
    if not service.methods:
        raise ServiceError(
            f"the service in {where} has no methods: decorate some with @service.method"
        )
    service.prepare()
    return service


def _service_of(module: ModuleType, where: str, attribute: str) -> Service:
    try:
        found = getattr(module, attribute)
    except AttributeError:
        others = [name for name, value in vars(module).items() if isinstance(value, Service)]
        hint = f": it has {', '.join(others)}" if others else ""
        raise ServiceError(f"{where} has no attribute {attribute!r}{hint}") from None
    if not isinstance(found, Service):
        kind = type(found).__name__
        raise ServiceError(f"{where}:{attribute} is of type {kind}, not a Service") from None
    return found


def _import_module(name: str) -> ModuleType:
    _search_first(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ServiceError(
                f"there is no module {error.name!r} (looked in {Path.cwd()} and Python's path)"
            ) from None
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ServiceError(f"there is no file {str(path)!r} (looked in {Path.cwd()})")
    _search_first(path.resolve().parent)
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_served"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ServiceError(f"{str(path)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(str(path), error) from error
    return module


def _search_first(folder: Path) -> None:
    """The folder where the user is comes first, as for `python -m`."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import_failed(name: str, error: BaseException) -> ServiceError:
    return ServiceError(f"importing {name} raised {what_was_raised(error)}")
