"""This Python: its version, how it was built, and the numerical libraries' threads."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping

from ..groups import handlers_of
from ..supervisor.blas import VARIABLES
from .findings import Finding, Patient, ok, warn

OLDEST = (3, 11)
BUILD_VARIABLES = ("CONFIG_ARGS", "PY_CFLAGS", "PY_CORE_CFLAGS", "PY_CORE_LDFLAGS")
SIGNS = ("--enable-optimizations", "-fprofile-use", "-fprofile-instr-use", "--with-lto", "-flto")
DISTRIBUTION = "/usr"  # their builds are optimised, but for some do not say so


def version(patient: Patient) -> Iterator[Finding]:
    yield ok("python", f"{platform.python_implementation()} {platform.python_version()}")


def build(patient: Patient) -> Iterator[Finding]:
    yield from _build(sysconfig.get_config_var, sys.base_prefix, hasattr(sys, "gettotalrefcount"))


def _build(config: Callable[[str], object], prefix: str, debug: bool) -> Iterator[Finding]:
    """How it was compiled; the same source runs a plain loop 1.8 times slower without PGO."""
    text = " ".join(str(config(name) or "") for name in BUILD_VARIABLES)
    if debug:
        yield warn(
            "build",
            "a debug build of Python: everything takes several times as long",
            "use a release build",
        )
    elif any(sign in text for sign in SIGNS):
        yield ok("build", "optimised with a profile")
    elif prefix == DISTRIBUTION:
        yield ok("build", "the distribution's")
    else:
        yield warn(
            "build",
            f"{prefix} was built without --enable-optimizations: a plain loop takes 1.8 times as"
            " long",
            "PYTHON_CONFIGURE_OPTS='--enable-optimizations --with-lto' pyenv install ..., or a"
            " packaged Python",
        )


def blas(patient: Patient) -> Iterator[Finding]:
    """What the user has set for numerical libraries counts before handlers.blas-threads."""
    yield _blas(os.environ, handlers_of(patient.settings), patient.settings.handlers.blas_threads)


def _blas(environ: Mapping[str, str], handlers: int, threads: int) -> Finding:
    chosen = {name: environ[name] for name in VARIABLES if environ.get(name)}
    if not chosen:
        return ok("blas", f"{threads} threads in each handler (handlers.blas-threads)")
    said = ", ".join(f"{name}={value}" for name, value in chosen.items())
    if any(value.isdigit() and int(value) > threads for value in chosen.values()):
        return warn(
            "blas",
            f"{said}: {handlers} handlers have more threads than there are processors",
            f"unset it, or set it to {threads}",
        )
    return ok("blas", said)
