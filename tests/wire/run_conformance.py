#!/usr/bin/env python3
"""Run jsonrpc_conformance.json against a server.  Stdlib only.

  run_conformance.py --host 127.0.0.1 --port 18545 --transports ndjson,clen,http [--path /rpc]
                     [--id PREFIX] [--level must] [--json out.json] [--heavy]
--heavy also runs the 16..128 MiB cases; --patience multiplies what an answer or a close may take.
Prints every case that is not as expected; exit status 0 if no 'must' case failed.
"""

# mypy: ignore-errors
# A plain script that runs against any server, without annotations.

import argparse
import base64
import contextlib
import gzip
import json
import os
import re
import socket
import sys
import time
from collections import Counter

POST = (
    b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
HERE = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser()
ap.add_argument("--host", default="127.0.0.1")
ap.add_argument("--port", type=int, default=18545)
ap.add_argument("--path", default="/rpc")
ap.add_argument("--transports", default="ndjson,clen,http")
ap.add_argument("--file", default=os.path.join(HERE, "jsonrpc_conformance.json"))
ap.add_argument("--id", default="")
ap.add_argument("--level", default="")
ap.add_argument("--json")
ap.add_argument("--heavy", action="store_true")
ap.add_argument("--timeout", type=float, default=6)
ap.add_argument("--patience", type=float, default=1)
ap.add_argument("-q", action="store_true")
a = ap.parse_args()
TR = a.transports.split(",")
HEAVY = {"json.16MiB", "json.64MiB", "nd.no-newline-flood", "slow.reader"}


def connect():
    s = socket.create_connection((a.host, a.port), timeout=5)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Timeout(Exception):
    pass


class Rd:
    """Buffered reader with a deadline; eof is remembered."""

    def __init__(self, s, secs):
        self.s, self.b, self.eof, self.end = s, b"", False, time.time() + secs

    def fill(self):
        left = self.end - time.time()
        if left <= 0:
            raise Timeout
        self.s.settimeout(left)
        try:
            c = self.s.recv(1 << 20)
        except TimeoutError:
            raise Timeout from None
        except OSError:
            c = b""
        if not c:
            self.eof = True
            return False
        self.b += c
        return True

    def until(self, sep):
        while sep not in self.b:
            if self.eof or not self.fill():
                return None
        x, self.b = self.b.split(sep, 1)
        return x

    def exact(self, n):
        while len(self.b) < n:
            if self.eof or not self.fill():
                return None
        x, self.b = self.b[:n], self.b[n:]
        return x

    def msg_nd(self):
        while True:
            line = self.until(b"\n")
            if line is None:
                return None
            if line.strip():
                return json.loads(line)

    def msg_clen(self):
        h = self.until(b"\r\n\r\n")
        if h is None:
            return None
        m = re.search(rb"(?im)^content-length:\s*(\d+)", h)
        b = self.exact(int(m.group(1)))
        return None if b is None else json.loads(b)

    def msg_http(self, head=False):
        h = self.until(b"\r\n\r\n")
        if h is None:
            return None
        st = int(h.split(b" ", 2)[1])
        hl = h.lower()
        if st == 100:
            return st, hl, b""
        m = re.search(rb"(?m)^content-length:\s*(\d+)", hl)
        if b"transfer-encoding: chunked" in hl:
            out = b""
            while True:
                n = self.until(b"\r\n")
                if n is None:
                    return st, hl, out
                k = int(n.split(b";")[0], 16)
                out += self.exact(k) or b""
                self.until(b"\r\n")
                if k == 0:
                    return st, hl, out
        if head or st in (204, 304):
            return st, hl, b""
        if m:
            return st, hl, self.exact(int(m.group(1))) or b""
        while self.fill():
            pass
        x, self.b = self.b, b""
        return st, hl, x


def send(s, data, pace=None):
    try:
        if pace == "bytewise":
            for i in range(len(data)):
                s.sendall(data[i : i + 1])
                if i < 40 or i % 16 == 0:
                    time.sleep(0.0005)
        else:
            s.sendall(data)
    except OSError:
        pass


def case_bytes(c):
    for n in ("body", "raw"):
        if n in c:
            return c[n].encode()
        if n + "_b64" in c:
            return base64.b64decode(c[n + "_b64"])
        if n + "_gz_b64" in c:
            return gzip.decompress(base64.b64decode(c[n + "_gz_b64"]))
    g = c["gen"]
    u = g["unit"]
    mid = (
        "".join(u % i for i in range(g["count"]))
        if g.get("numbered")
        else g.get("sep", "").join([u] * g["count"])
    )
    return (g["prefix"] + mid + g["suffix"]).encode()


def num_eq(x, y):
    return (
        type(x) is not bool
        and type(y) is not bool
        and isinstance(x, (int, float))
        and isinstance(y, (int, float))
        and x == y
    )


def same(x, y):
    if isinstance(x, bool) or isinstance(y, bool):
        return x is y
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return x == y
    if type(x) is not type(y):
        return False
    if isinstance(x, list):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(same(x[k], y[k]) for k in x)
    return x == y


def valid(r):
    """shape of one response object"""
    return (
        isinstance(r, dict)
        and r.get("jsonrpc") == "2.0"
        and "id" in r
        and (("result" in r) != ("error" in r))
        and (
            "error" not in r
            or (
                isinstance(r["error"], dict)
                and type(r["error"].get("code")) is int
                and isinstance(r["error"].get("message"), str)
            )
        )
    )


def match(e, r):
    """does response r (None = no response, 'closed', ('http', status)) fit expectation e?"""
    if "any_of" in e:
        return any(match(x, r) for x in e["any_of"])
    if "none" in e:
        return r is None
    if "closed" in e:
        return r == "closed"
    if "status" in e:
        return isinstance(r, tuple) and r[1] in e["status"]
    if "stream" in e:
        return False
    if "batch_len" in e:
        return isinstance(r, list) and len(r) == e["batch_len"]
    if "batch" in e:
        if not isinstance(r, list) or len(r) != len(e["batch"]):
            return False
        left = list(r)
        for x in e["batch"]:
            for i, y in enumerate(left):
                if match(x, y):
                    del left[i]
                    break
            else:
                return False
        return True
    if not valid(r):
        return False
    if "any_result" in e:
        return ("result" in r or "error" in r) and ("id" not in e or same(r["id"], e["id"]))
    if "app_error" in e:
        return "error" in r and e["app_error"] in r["error"]["message"] and same(r["id"], e["id"])
    ids = e["id"] if isinstance(e["id"], list) else [e["id"]]
    if not any(same(r["id"], i) for i in ids):
        return False
    if "result" in e:
        return "result" in r and same(r["result"], e["result"])
    codes = e["error"] if isinstance(e["error"], list) else [e["error"]]
    return "error" in r and r["error"]["code"] in codes


def short(x):
    s = repr(x)
    return s if len(s) < 150 else s[:150] + "…"


def alive():
    """echo on a fresh connection within 2 s, or --patience times that, in the first transport"""
    t = TR[0]
    try:
        s = connect()
        b = b'{"jsonrpc":"2.0","method":"echo","params":["alive"],"id":77}'
        r = Rd(s, 2 * a.patience)
        if t == "ndjson":
            s.sendall(b + b"\n")
            m = r.msg_nd()
        elif t == "clen":
            s.sendall(b"Content-Length: %d\r\n\r\n" % len(b) + b)
            m = r.msg_clen()
        else:
            s.sendall(POST % (a.path.encode(), len(b)) + b)
            m = json.loads(r.msg_http()[2])
        s.close()
        return m["result"] == "alive"
    except Exception:
        return False


def run_body(c, t):
    data = case_bytes(c)
    limit = c.get("max_seconds", a.timeout) * a.patience
    s = connect()
    r = Rd(s, limit)
    marker = b'{"jsonrpc":"2.0","method":"echo","params":["marker"],"id":"marker-4711"}'
    got = None
    try:
        if t == "http":
            send(
                s,
                POST % (a.path.encode(), len(data)) + data,
            )
            m = r.msg_http()
            if m is None:
                got = "closed"
            elif m[0] in (202, 204) or (m[0] == 200 and not m[2]):
                got = None
            else:
                try:
                    got = json.loads(m[2])
                except ValueError:
                    got = ("http", m[0], m[2][:60])
                    if m[0] in c.get("http_status_ok", []):
                        return True, got
        else:
            if t == "ndjson":
                send(
                    s, data + b"\n" + marker + b"\n"
                )  # the marker's answer shows that nothing else comes
                rd = r.msg_nd
            else:
                send(
                    s,
                    b"Content-Length: %d\r\n\r\n" % len(data)
                    + data
                    + b"Content-Length: %d\r\n\r\n" % len(marker)
                    + marker,
                )
                rd = r.msg_clen
            msgs, seen = [], False
            while True:
                m = rd()
                if m is None:
                    if not msgs:
                        got = "closed"
                    break
                if isinstance(m, dict) and m.get("id") == "marker-4711":
                    seen = True
                    if msgs or "none" in c["expect"]:
                        r.end = min(r.end, time.time() + 0.05)
                        if "none" in c["expect"]:
                            r.end = time.time() + 0.15
                    continue
                msgs.append(m)
                if seen:
                    break
                r.end = min(r.end, time.time() + 1.0)
    except Timeout:
        if t == "http" or (not seen and not msgs):
            got = "timeout"
    except (ValueError, TypeError, AttributeError, IndexError) as e:
        got = f"unreadable answer: {e}"
    finally:
        s.close()
    if t != "http" and got is None and msgs:
        got = msgs[0]
        if len(msgs) > 1:
            e = c["expect"]
            if any("stream" in x for x in e.get("any_of", [])) and len(msgs) == 2:
                return True, msgs
            return False, msgs
    return match(c["expect"], got), got


def run_stream(c, t):
    data = case_bytes(c)
    e = c["expect"]
    wait = c.get("wait", c.get("max_seconds", a.timeout))
    if "closed_or_error" in e or "wait" not in c:
        wait *= a.patience
    s = connect()
    r = Rd(s, wait)
    if "idle" in e:
        time.sleep(wait)
        s.close()
        return True, "idle"
    if "no_read_backpressure" in e:
        s.settimeout(3)
        n, stalled = 0, False
        try:
            for i in range(0, len(data), 1 << 20):
                s.sendall(data[i : i + (1 << 20)])
                n = i
        except OSError:
            stalled = True
        ok = alive()
        s.close()
        return (
            ok,
            f"sent {n >> 20} MiB, {'stalled (back-pressure)' if stalled else 'all swallowed'}",
        )
    send(s, data, c.get("pace"))
    if c.get("half_close"):
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_WR)
    msgs, end = [], "timeout"
    try:
        if "closed_or_error" in e:
            while r.fill():
                if b"HTTP/1." in r.b and re.search(rb"HTTP/1\.[01] [45]\d\d", r.b):
                    return True, r.b[:60]
                if b'"error"' in r.b and re.search(rb'"id"\s*:\s*null', r.b):
                    return True, r.b[:120]
            return True, "closed"
        rd = r.msg_clen if t == "clen" else r.msg_nd
        want = len(e.get("stream_set", [])) or 1
        if "stream_order" in e:
            want = len(e["stream_order"])
        if e.get("stream_set") == []:
            r.end = time.time() + 0.5
        while len(msgs) < want + 1:
            if len(msgs) >= want:
                r.end = min(r.end, time.time() + 0.15)
            m = rd()
            if m is None:
                end = "closed"
                break
            msgs.append(m)
    except Timeout:
        pass
    except ValueError as x:
        return False, f"unreadable: {x} {r.b[:60]!r}"
    finally:
        s.close()
    if "closed_or_error" in e:
        return False, "timeout: neither error nor close"
    if "batch_line" in e:
        return bool(msgs) and match({"batch": e["batch_line"]}, msgs[0]), msgs
    if "stream_order" in e:
        return [m.get("id") for m in msgs] == e["stream_order"], msgs
    if "stream_any" in e:
        for alt in e["stream_any"]:
            if alt == "errors":
                if all(isinstance(m, dict) and "error" in m for m in msgs):
                    return True, msgs
            elif len(alt) == len(msgs) and all(map(match, alt, msgs)):
                return True, msgs
        return False, msgs or end
    return match({"batch": e["stream_set"]}, msgs), msgs or end


def run_http(c):
    data = (
        case_bytes(c).replace(b" /rpc", b" " + a.path.encode(), 1)
        if a.path != "/rpc"
        else case_bytes(c)
    )
    if a.path != "/rpc":
        data = (
            case_bytes(c)
            .replace(b" /rpc", b" " + a.path.encode())
            .replace(b"localhost/rpc", b"localhost" + a.path.encode())
        )
    s = connect()
    r = Rd(s, c.get("wait", c.get("max_seconds", a.timeout)) * a.patience)
    got, okc = [], True
    try:
        if c.get("wait_100"):
            h, b = data.split(b"\r\n\r\n", 1)
            send(s, h + b"\r\n\r\n")
            m = r.msg_http()
            got.append(m and m[0])
            if m and m[0] == 100:
                send(s, b)
                m = r.msg_http()
                got.append(m and m[0])
            return got in ([100, 200], [200]), got
        send(s, data, c.get("pace"))
        for e in c["expect"]["http"]:
            m = r.msg_http(head=c.get("head", False))
            if m is None:
                got.append("closed")
                okc = bool(c.get("or_close"))
                break
            got.append((m[0], m[2][:90]))
            if m[0] not in e["status"]:
                okc = False
                break
            if e.get("rpc") is not None:
                try:
                    if not match(e["rpc"], json.loads(m[2])):
                        okc = False
                        break
                except ValueError:
                    okc = False
                    break
            if e.get("no_header") and e["no_header"].encode() in m[1]:
                okc = False
                got.append("has " + e["no_header"])
        if okc and c.get("closes") and "closed" not in got:
            r.end = time.time() + 3 * a.patience
            try:
                while r.fill():
                    if re.search(rb"HTTP/1\.[01] 200", r.b):
                        return False, [*got, "a second answer after an error: smuggled request"]
                got.append("closed")
            except Timeout:
                okc = False
                got.append("still open")
    except Timeout:
        got.append("timeout")
        okc = False
    except Exception as x:
        got.append(f"{type(x).__name__}: {x}")
        okc = False
    finally:
        s.close()
    return okc, got


with open(a.file) as f:
    doc = json.load(f)
rows, tally = [], Counter()
t00 = time.time()
for c in doc["cases"]:
    if (
        not c["id"].startswith(a.id)
        or (a.level and c["level"] != a.level)
        or (c["id"] in HEAVY and not a.heavy)
    ):
        continue
    trs = c.get("transports", ["ndjson", "clen", "http"])
    if trs == ["any"]:
        trs = [TR[0]] if "http" not in c["expect"] else ["http"]
    for t in trs:
        if t not in TR:
            continue
        t0 = time.time()
        try:
            if "http" in c["expect"]:
                okc, got = run_http(c)
            elif any(
                k in c["expect"]
                for k in (
                    "stream_set",
                    "stream_any",
                    "stream_order",
                    "closed_or_error",
                    "idle",
                    "no_read_backpressure",
                    "batch_line",
                )
            ):
                okc, got = run_stream(c, t)
            else:
                okc, got = run_body(c, t)
        except ConnectionRefusedError:
            okc, got = False, "connection refused"
        dt = time.time() - t0
        if okc and "max_seconds" in c and dt > c["max_seconds"] * a.patience:
            okc, got = False, f"took {dt:.1f}s, limit {c['max_seconds'] * a.patience}s"
        if not alive():
            time.sleep(1)
            if not alive():
                okc, got = False, f"SERVER DEAD OR STUCK after this case; {got}"
        v = "ok" if okc else ("FAIL" if c["level"] == "must" and not c.get("soft") else "diff")
        tally[v] += 1
        rows.append(
            {
                "id": c["id"],
                "transport": t,
                "verdict": v,
                "got": short(got),
                "ms": round(dt * 1e3, 1),
            }
        )
        if v != "ok" and not a.q:
            print(f"{v:4s} {c['id']:26s} {t:7s} {dt * 1e3:8.0f} ms  got {short(got)}", flush=True)
print(
    f"{sum(tally.values())} checks in {time.time() - t00:.0f} s: {tally['ok']} ok, "
    f"{tally['FAIL']} must-failures, {tally['diff']} should-differences"
)
if a.json:
    with open(a.json, "w") as f:
        json.dump({"tally": tally, "rows": rows}, f, indent=0, ensure_ascii=True)
sys.exit(1 if tally["FAIL"] else 0)
