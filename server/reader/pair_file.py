"""Files that name users: two words a line, `#` before comments, read again when they change.

    # TOKEN        USER              # USER  GROUP
    5f2a...91      anna              anna    physics

A change that cannot be read is logged once, and what was read before goes on to count.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import time
from collections.abc import Callable
from hashlib import blake2b

log = logging.getLogger("faircall.reader")

LOOK_NS = 1_000_000_000  # how often the file is looked at, at most
SETTLED_NS = 1_000_000_000  # a file that is written in place is read when it was left alone so long
MAX_BYTES = 64 << 20
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO

Signature = tuple[int, int, int]  # mtime_ns, size, inode


class FileUnusable(Exception):
    """The file is not there, not ours alone or not well-formed; the message names it and says."""


class PairFile:
    """`find` gives the second word to a first one.

    `secret`: the first words are kept as keyed digests and looked up by them, so that the time of
    a look-up tells nothing of the words; and nobody but the owner may have access to the file.
    """

    def __init__(
        self, path: str, *, secret: bool = False, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """FileUnusable if it cannot be read now."""
        self._path, self._secret, self._clock = path, secret, clock
        self._salt = secrets.token_bytes(16)
        self._seen = self._signature()
        self._pairs = self._read()
        self._looked_ns = clock()

    def find(self, word: str) -> str | None:
        now_ns = self._clock()
        if now_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns = now_ns
            self._look()
        return self._pairs.get(self._key(word))

    def _look(self) -> None:
        try:
            signature = self._signature()
            if signature == self._seen or self._is_being_written(signature):
                return
            self._seen = signature
            self._pairs = self._read()
        except FileUnusable as error:
            if self._seen is not None:
                log.warning("file not read again", {"error": str(error)})
            if not os.path.exists(self._path):
                self._seen = None
        else:
            log.info("file read again", {"path": self._path, "entries": len(self._pairs)})

    def _is_being_written(self, now: Signature | None) -> bool:
        """Whether it may be half of what it will be: changed in place, a moment ago."""
        if now is None or self._seen is None or now[2] != self._seen[2]:
            return False  # it is another file, and was written aside
        return 0 <= time.time_ns() - now[0] < SETTLED_NS

    def _signature(self) -> Signature | None:
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise FileUnusable(f"{self._path} cannot be read: {error.strerror}") from None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> dict[bytes, str]:
        try:
            with open(self._path, "rb") as file:
                self._check(os.fstat(file.fileno()))
                text = file.read(MAX_BYTES).decode()
        except OSError as error:
            raise FileUnusable(f"{self._path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise FileUnusable(f"{self._path} is not UTF-8") from None
        return self._parse(text)

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise FileUnusable(f"{self._path} is not a file")
        if not self._secret:
            return
        if status.st_mode & _OTHERS_MAY:
            mode = stat.S_IMODE(status.st_mode)
            raise FileUnusable(f"{self._path} has mode {mode:04o}: others have access; chmod 600")
        if status.st_uid not in (0, os.geteuid()):
            raise FileUnusable(f"{self._path} belongs to uid {status.st_uid}, not to this server's")

    def _parse(self, text: str) -> dict[bytes, str]:
        pairs: dict[bytes, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 2 or not all(word.startswith("#") for word in words[2:3]):
                raise FileUnusable(f"{self._path}:{number}: needs two words, and # before comments")
            key = self._key(words[0])
            if key in pairs:
                raise FileUnusable(f"{self._path}:{number}: its first word stands there before")
            pairs[key] = words[1]
        return pairs

    def _key(self, word: str) -> bytes:
        encoded = word.encode("utf-8", "surrogatepass")
        return blake2b(encoded, key=self._salt).digest() if self._secret else encoded
