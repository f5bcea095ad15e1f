"""Shared check list of the interop scripts: every client library runs it through its own API."""

# mypy: ignore-errors
# A plain script that runs against any server, without annotations.

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback

UNICODE = 'héllo – Привет – 你好 – שלום – 🦊👩‍🚀 – \u0000\u001f\u2028\u2029 – é(combining) – \\"/'  # noqa: RUF001 (dashes are meant)
VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**53 - 1,
    1.5,
    "",
    "x",
    [],
    {},
    [1, [2, [3]]],
    {"a": {"b": [None]}},
]
BIG = 1024 * 1024
TRIES = 10  # a busy machine may hold calls up, but none makes 8 sleeps shorter than their sum


def args(desc="", unix=False, path="/rpc"):
    ap = argparse.ArgumentParser(description=desc)
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=18545)
    ap.add_argument("--unix", default=None, help="Unix socket path (scripts that can use one)")
    ap.add_argument("--path", default=path, help="HTTP path")
    ap.add_argument("--big", type=int, default=BIG, help="size in bytes of the big echo")
    ap.add_argument("--par", type=int, default=16, help="parallel sleep(0.2) calls")
    ap.add_argument("--seq", type=int, default=100, help="sequential calls")
    ap.add_argument("--skip", default="", help="comma separated check names to leave out")
    a = ap.parse_args()
    a.url = f"http://{a.host}:{a.port}{a.path}"
    a.skip = set(filter(None, a.skip.split(",")))
    return a


class Checks:
    def __init__(self, name, a):
        self.name, self.a, self.rows = name, a, []

    def _rec(self, what, ok, note, dt):
        self.rows.append({"check": what, "ok": ok, "note": note, "ms": round(dt * 1e3, 1)})
        tag = "ok" if ok else ("skip" if ok is None else "NOT OK")
        print(f"{tag:7s} {self.name:28s} {what:16s} {dt * 1e3:8.1f} ms  {note}", flush=True)

    def run(self, what, fn):
        if what in self.a.skip:
            return self._rec(what, None, "skipped by --skip", 0)
        t = time.perf_counter()
        try:
            note = fn()
            self._rec(what, True, note or "", time.perf_counter() - t)
        except NotImplementedError as e:
            self._rec(what, None, str(e) or "not supported by this client", time.perf_counter() - t)
        except BaseException as e:  # a client library may raise anything
            if isinstance(e, KeyboardInterrupt):
                raise
            if self.a.__dict__.get("trace"):
                traceback.print_exc()
            self._rec(what, False, f"{type(e).__name__}: {str(e)[:160]}", time.perf_counter() - t)

    async def arun(self, what, fn):
        if what in self.a.skip:
            return self._rec(what, None, "skipped by --skip", 0)
        t = time.perf_counter()
        try:
            note = await fn()
            self._rec(what, True, note or "", time.perf_counter() - t)
        except NotImplementedError as e:
            self._rec(what, None, str(e) or "not supported by this client", time.perf_counter() - t)
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            self._rec(what, False, f"{type(e).__name__}: {str(e)[:160]}", time.perf_counter() - t)

    def done(self):
        bad = sum(r["ok"] is False for r in self.rows)
        print(
            "SUMMARY "
            + json.dumps(
                {
                    "script": self.name,
                    "passed": sum(r["ok"] is True for r in self.rows),
                    "failed": bad,
                    "skipped": sum(r["ok"] is None for r in self.rows),
                }
            ),
            flush=True,
        )
        sys.exit(1 if bad else 0)


def eq(got, want):
    if got != want or type(got) is not type(want):
        raise AssertionError(f"got {repr(got)[:120]}, want {repr(want)[:120]}")


def sync_suite(
    name, a, call, call_named=None, expect_error=None, notify=None, batch=None, parallel=None
):
    """call(method, *params) -> result; expect_error(method, *params) -> (code, message);
    notify(method, *params); batch() -> note; parallel(n, secs) -> list of results."""
    c = Checks(name, a)

    def values():
        for v in VALUES:
            eq(call("echo", v), v)

    def uni():
        eq(call("echo", UNICODE), UNICODE)

    def pos():
        eq(call("add", 2, 3), 5)
        eq(call("add", "a", "b"), "ab")

    def named():
        if call_named is None:
            raise NotImplementedError
        eq(call_named("add", a=2, b=40), 42)

    def error():
        if expect_error is None:
            raise NotImplementedError
        code, msg = expect_error("fail", "boom ✗")
        if not (isinstance(code, int) and -32768 <= code <= 32767) or "boom ✗" not in str(msg):
            raise AssertionError((code, msg))
        return f"code={code}"

    def nomethod():
        if expect_error is None:
            raise NotImplementedError
        code, _ = expect_error("no_such_method", 1)
        eq(code, -32601)

    def badparams():
        if expect_error is None:
            raise NotImplementedError
        code, _ = expect_error("add", 1)
        eq(code, -32602)

    def note():
        if notify is None:
            raise NotImplementedError
        for _ in range(5):
            notify("echo", "n")
        notify("no_such_method", 1)
        eq(call("echo", "after"), "after")

    def do_batch():
        if batch is None:
            raise NotImplementedError
        return batch()

    def big():
        s = "x" * a.big
        got = call("echo", s)
        if got != s:
            raise AssertionError(f"length {len(got)} != {len(s)}")
        return f"{a.big} bytes"

    def seq():
        t = time.perf_counter()
        for i in range(a.seq):
            eq(call("add", i, 1), i + 1)
        return f"{a.seq / (time.perf_counter() - t):.0f} calls/s"

    def par():
        if parallel is None:
            raise NotImplementedError
        for _ in range(TRIES):
            t = time.perf_counter()
            r = parallel(a.par, 0.2)
            dt = time.perf_counter() - t
            eq([float(x) for x in r], [0.2] * a.par)
            if dt <= 0.2 * a.par * 0.8:
                return f"{a.par} x 0.2s in {dt:.2f}s"
        raise AssertionError(f"{a.par} x sleep(0.2) took {dt:.2f}s: served one after another")

    for w, f in (
        ("values", values),
        ("unicode", uni),
        ("positional", pos),
        ("named", named),
        ("error", error),
        ("no-method", nomethod),
        ("bad-params", badparams),
        ("notification", note),
        ("batch", do_batch),
        ("big", big),
        ("sequential", seq),
        ("concurrent", par),
    ):
        c.run(w, f)
    c.done()


async def async_suite(
    name, a, call, call_named=None, expect_error=None, notify=None, batch=None, parallel=None
):
    import asyncio

    c = Checks(name, a)

    async def values():
        for v in VALUES:
            eq(await call("echo", v), v)

    async def uni():
        eq(await call("echo", UNICODE), UNICODE)

    async def pos():
        eq(await call("add", 2, 3), 5)

    async def named():
        if call_named is None:
            raise NotImplementedError
        eq(await call_named("add", a=2, b=40), 42)

    async def error():
        if expect_error is None:
            raise NotImplementedError
        code, msg = await expect_error("fail", "boom ✗")
        if not isinstance(code, int) or "boom ✗" not in str(msg):
            raise AssertionError((code, msg))
        return f"code={code}"

    async def nomethod():
        if expect_error is None:
            raise NotImplementedError
        eq((await expect_error("no_such_method", 1))[0], -32601)

    async def badparams():
        if expect_error is None:
            raise NotImplementedError
        eq((await expect_error("add", 1))[0], -32602)

    async def note():
        if notify is None:
            raise NotImplementedError
        for _ in range(5):
            await notify("echo", "n")
        await notify("no_such_method", 1)
        eq(await call("echo", "after"), "after")

    async def do_batch():
        if batch is None:
            raise NotImplementedError
        return await batch()

    async def big():
        s = "x" * a.big
        got = await call("echo", s)
        if got != s:
            raise AssertionError("big echo differs")
        return f"{a.big} bytes"

    async def seq():
        t = time.perf_counter()
        for i in range(a.seq):
            eq(await call("add", i, 1), i + 1)
        return f"{a.seq / (time.perf_counter() - t):.0f} calls/s"

    async def par():
        for _ in range(TRIES):
            t = time.perf_counter()
            if parallel is not None:
                r = await parallel(a.par, 0.2)
            else:
                r = await asyncio.gather(*[call("sleep", 0.2) for _ in range(a.par)])
            dt = time.perf_counter() - t
            eq([float(x) for x in r], [0.2] * a.par)
            if dt <= 0.2 * a.par * 0.8:
                return f"{a.par} x 0.2s in {dt:.2f}s"
        raise AssertionError(f"{a.par} x sleep(0.2) took {dt:.2f}s: served one after another")

    async def order():
        """Slow first, fast second on one connection: does the fast one overtake or wait (HOL)?"""
        t = time.perf_counter()
        done = []

        async def one(tag, s):
            await call("sleep", s)
            done.append((tag, round(time.perf_counter() - t, 2)))

        await asyncio.gather(one("slow", 0.6), one("fast", 0.05))
        return f"{done}"

    for w, f in (
        ("values", values),
        ("unicode", uni),
        ("positional", pos),
        ("named", named),
        ("error", error),
        ("no-method", nomethod),
        ("bad-params", badparams),
        ("notification", note),
        ("batch", do_batch),
        ("big", big),
        ("sequential", seq),
        ("concurrent", par),
        ("overtaking", order),
    ):
        await c.arun(w, f)
    return c
