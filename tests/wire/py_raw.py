#!/usr/bin/env python3
"""Stdlib sockets only.  --framing ndjson|clen|http ; TCP or --unix."""

# mypy: ignore-errors
# A plain script that runs against any server, without annotations.

import itertools
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import common

POST = (
    b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


class Raw:
    def __init__(self, a, framing):
        self.a, self.framing = a, framing
        if a.unix:
            self.s = socket.socket(socket.AF_UNIX)
            self.s.connect(a.unix)
        else:
            self.s = socket.create_connection((a.host, a.port))
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s.settimeout(30)
        self.f = self.s.makefile("rb")
        self.ids = itertools.count(1)

    def send(self, obj):
        b = json.dumps(obj).encode()
        if self.framing == "ndjson":
            self.s.sendall(b + b"\n")
        elif self.framing == "clen":
            self.s.sendall(b"Content-Length: %d\r\n\r\n" % len(b) + b)
        else:
            self.s.sendall(POST % (self.a.path.encode(), len(b)) + b)

    def recv(self):
        if self.framing == "ndjson":
            line = self.f.readline()
            if not line:
                raise EOFError
            return json.loads(line)
        if self.framing == "http":
            st = self.f.readline()
            self.status = int(st.split()[1])
        n = None
        while True:
            h = self.f.readline()
            if h in (b"\r\n", b""):
                break
            if h.lower().startswith(b"content-length:"):
                n = int(h.split(b":")[1])
        if self.framing == "http" and self.status in (200, 202, 204) and not n:
            return None
        return json.loads(self.f.read(n))

    def call(self, m, *p):
        r = self.rpc({"jsonrpc": "2.0", "method": m, "params": list(p), "id": next(self.ids)})
        return r["result"]

    def named(self, m, **p):
        return self.rpc({"jsonrpc": "2.0", "method": m, "params": p, "id": next(self.ids)})[
            "result"
        ]

    def rpc(self, o):
        self.send(o)
        r = self.recv()
        assert r["jsonrpc"] == "2.0", r
        assert r["id"] == o["id"], r
        assert ("result" in r) != ("error" in r), r
        return r

    def error(self, m, *p):
        e = self.rpc(
            {"jsonrpc": "2.0", "method": m, "params": list(p), "id": f"e{next(self.ids)}"}
        )["error"]
        return e["code"], e["message"]

    def notify(self, m, *p):
        self.send({"jsonrpc": "2.0", "method": m, "params": list(p)})
        if self.framing == "http":
            assert self.recv() is None

    def batch(self):
        self.send(
            [
                {"jsonrpc": "2.0", "method": "add", "params": [1, 2], "id": 1},
                {"jsonrpc": "2.0", "method": "echo", "params": ["n"]},
                {"jsonrpc": "2.0", "method": "no_such", "id": "x"},
                1,
                {"jsonrpc": "2.0", "method": "fail", "params": ["b"], "id": None},
                {"jsonrpc": "2.0", "method": "echo", "params": {"x": "é"}, "id": 2.5},
            ]
        )
        r = self.recv()
        assert isinstance(r, list), r
        assert len(r) == 5, r
        by = sorted(
            (json.dumps(x["id"]), x.get("result"), x.get("error", {}).get("code")) for x in r
        )
        want = sorted(
            [("1", 3, None), ('"x"', None, -32601), ("null", None, -32600), ("2.5", "é", None)]
            + [b for b in by if b[0] == "null" and b[2] != -32600]
        )
        assert by == want, (by, want)
        self.send([{"jsonrpc": "2.0", "method": "echo", "params": ["n"]}] * 3)
        if self.framing == "http":
            assert self.recv() is None
        self.send([])
        r = self.recv()
        assert isinstance(r, dict), r
        assert r["error"]["code"] == -32600, r
        assert r["id"] is None, r
        n = 200
        self.send(
            [{"jsonrpc": "2.0", "method": "add", "params": [i, i], "id": i} for i in range(n)]
        )
        r = self.recv()
        assert sorted((x["id"], x["result"]) for x in r) == [(i, 2 * i) for i in range(n)]
        return "mixed, all-notifications, empty, 200 items"

    def parallel(self, n, secs):
        with ThreadPoolExecutor(n) as ex:
            return list(ex.map(lambda _: Raw(self.a, self.framing).call("sleep", secs), range(n)))


def main():
    framing = "ndjson"
    if "--framing" in sys.argv:
        i = sys.argv.index("--framing")
        framing = sys.argv[i + 1]
        del sys.argv[i : i + 2]
    a = common.args(__doc__)
    r = Raw(a, framing)
    common.sync_suite(
        f"raw-{framing}{'-unix' if a.unix else ''}",
        a,
        r.call,
        r.named,
        r.error,
        r.notify,
        r.batch,
        r.parallel,
    )


main()
