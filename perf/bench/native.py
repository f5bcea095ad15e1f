"""The generator in C: compiled when it is first used, kept in a cache folder, run as a process.

The name of the program holds a hash of its source, so an old one is never run for a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from .plan import Plan, text_of
from .result import Result, result_of

SOURCES = Path(__file__).parent.parent / "load"
FLAGS = ("-O2", "-std=gnu11")
FIRST_ERROR = "first error "
LIBRARIES = ("-lpthread", "-lm")

Progress = Callable[[float, int, int], object]  # second, OK calls in it, other calls until then


class LoadFailed(Exception):
    """The generator could not do what the plan says; the message is its own."""


def compiler() -> str | None:
    """The path of a C compiler: $CC, or cc."""
    return shutil.which(os.environ.get("CC") or "cc")


def program() -> Path | None:
    """The compiled generator; None without a compiler. LoadFailed if it does not compile."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.read_bytes())
    path = _cache() / f"load-{digest.hexdigest()[:16]}"
    if path.exists():
        return path
    cc = compiler()
    return _compiled(cc, path) if cc else None


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root.startswith("/") else Path.home() / ".cache") / "faircall"


def _compiled(cc: str, path: Path) -> Path:
    """Made under another name first: several may compile it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, made = tempfile.mkstemp(dir=path.parent, prefix=".load-")
    os.close(fd)
    try:
        command = [cc, *FLAGS, "-o", made, str(SOURCES / "load.c"), *LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise LoadFailed(f"{cc} does not compile {SOURCES / 'load.c'}: {done.stderr.strip()}")
        os.chmod(made, 0o755)
        os.replace(made, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)
    return path


def run_native(path: Path, plan: Plan, progress: Progress | None = None) -> Result:
    """Run the plan. LoadFailed with what the generator said."""
    with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as answer:
        text.write(text_of(plan))
        text.seek(0)
        with subprocess.Popen(
            [path], stdin=text, stdout=answer, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            try:
                said, error = _followed(process, progress)
            finally:
                if process.poll() is None:
                    process.kill()
        if process.returncode:
            raise LoadFailed(said or f"the generator ended with {process.returncode}")
        answer.seek(0)
        return result_of({**json.load(answer), "first_error": error})


def _followed(process: subprocess.Popen[str], progress: Progress | None) -> tuple[str, str]:
    """Passes progress on until the generator ends; what else it said, and the first error of a
    call."""
    said, first_error = [], ""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(FIRST_ERROR):
            first_error = line.removeprefix(FIRST_ERROR).strip()
        elif not line.startswith("progress "):
            said.append(line.strip())
        elif progress is not None:
            second, ok, other = line.split()[1:]
            progress(float(second), int(ok), int(other))
    process.wait()
    return " ".join(said), first_error
