#!/usr/bin/env python3
"""Runs every measure of a mode on a small graph, and compares with its own traversal.

modes.py BUILD-FOLDER MODE

It uses only the graph file and README.md's rules, none of the programs' code.
"""
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

PARTS, GRAPH_SEED, SEED, HOPS = 2000, 3, 11, 7
MASK = (1 << 64) - 1
NOT_HERE = 77


class Random:
    """splitmix64"""

    def __init__(self, seed, purpose):
        self.state = (seed * 0xD1342543DE82EF95 + purpose) & MASK
        self.next()

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, limit):
        return (self.next() * limit) >> 64


class Graph:
    """parts[id] = (x, y, type, [to, to, to]); incoming[id] = ids, the youngest connection first"""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        magic, self.digest, _, count, self.locality = struct.unpack_from("<16sQQII", data)
        assert magic.rstrip(b"\0") == b"OO1 graph 1", magic
        self.parts, self.incoming = {}, {i: [] for i in range(1, count + 1)}
        for i in range(count):
            _, number, x, y, kind = struct.unpack_from("<qIII10s", data, 40 + 96 * i)
            to = [struct.unpack_from("<I", data, 40 + 96 * i + 32 + 20 * k)[0] for k in range(3)]
            self.add(number, x, y, kind, to)
        assert len(data) == 40 + 96 * count

    def add(self, number, x, y, kind, to):
        self.parts[number] = (x, y, kind, to)
        self.incoming.setdefault(number, [])
        for target in to:
            self.incoming.setdefault(target, []).insert(0, number)

    def draw(self, random, number, count):
        x, y = random.below(100000), random.below(100000)
        random.below(3652 * 86400)
        kind = b"part-type%d" % random.below(10)
        size = count // 100
        first = max(1, number - size // 2)
        first = min(first, count - size + 1)
        to = []
        for _ in range(3):
            near = self.locality and random.below(10) < 9
            to.append(first + random.below(size) if near else 1 + random.below(count))
            random.below(100000)
            random.below(10)
        return number, x, y, kind, to


class Visits:
    def __init__(self, graph):
        self.graph, self.sum, self.visited = graph, 0x6C62272E07BB0142, []

    def mix(self, word):
        self.sum = ((self.sum ^ word) * 0x9E3779B97F4A7C15) & MASK
        self.sum ^= self.sum >> 32

    def visit(self, number):
        x, y, kind, _ = self.graph.parts[number]
        self.mix(number | x << 32)
        self.mix(y | int.from_bytes(kind[8:], "little") << 32)
        self.mix(int.from_bytes(kind[:8], "little"))

    def walk(self, number, hops, reverse):
        self.visit(number)
        if hops == 0:
            return 1
        others = self.graph.incoming[number] if reverse else self.graph.parts[number][3]
        return 1 + sum(self.walk(other, hops - 1, reverse) for other in others)

    def unit(self, number, hops, reverse):
        self.visited.append(self.walk(number, hops, reverse))


def expected(graph, measure, layout):
    visits = Visits(graph)
    if measure == "insert":
        random, count = Random(SEED, 4), PARTS
        for _ in range(10):
            fresh = [graph.draw(random, count + 1 + i, count + 100) for i in range(100)]
            for part in fresh:
                graph.add(*part)
            count += 100
        for i in range(10):
            visits.unit(PARTS + 1 + i * 100, HOPS, False)
        for i in range(10 if layout == "oo1" else 0):
            visits.unit(PARTS - i, 2, True)
    elif measure == "lookup":
        for pattern in range(10):
            random = Random(SEED, 3 + (pattern << 8))
            for _ in range(1000):
                visits.visit(1 + random.below(PARTS))
            visits.visited.append(1000)
    else:
        random = Random(SEED, 1)
        for _ in range(10):
            visits.unit(1 + random.below(PARTS), HOPS, measure == "reverse")
    return f"{visits.sum:016x}", visits.visited


def call(*words, expect=0):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=500)
    if done.returncode == NOT_HERE:
        print("not on this machine:", done.stderr.strip())
        sys.exit(NOT_HERE)
    if done.returncode != expect:
        sys.exit(f"{' '.join(map(str, words))}: status {done.returncode}, not {expect}\n{done.stderr}")
    return done


def check(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got}, not {wanted}")


def fingerprint(folder):
    """Hashes of all files: an insert leaves the store unchanged."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(pathlib.Path(folder).iterdir())
        if path.name != "lock.mdb"  # LMDB's table of readers
    }


def refusals(build, program, mode, graph, room):
    other = room / "other"
    call(build / "oo1-generate", "--parts", 100, "--locality", "no", "--seed", 9, other)
    run = [program, "run", room / "oo1", "--measure", "lookup"]
    said = call(*run, "--graph", other, expect=1).stderr
    if "another graph" not in said:
        sys.exit(f"a store of another graph was refused for another reason: {said}")
    call(*run, "--digest", f"{graph.digest:016x}")
    call(program, "load", other, room / "oo1", expect=1)  # it is there already
    call(*run[:-1], "pushups", expect=1)
    call(program, "run", room / "paper", "--measure", "reverse", expect=1)
    described = room / "oo1" / "description.json"
    description = json.loads(described.read_text())
    check("mode in the description", description["mode"], mode)
    described.write_text(json.dumps(description | {"mode": "another"}))
    said = call(*run, expect=1).stderr
    if "is of mode another" not in said:
        sys.exit(f"a store of another mode was refused for another reason: {said}")


def main():
    build, mode = pathlib.Path(sys.argv[1]), sys.argv[2]
    program = build / f"oo1-{mode}"
    # In memory: libpmemobj on a disk takes a second per commit.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    room = pathlib.Path(tempfile.mkdtemp(prefix=f"oo1-{mode}-", dir=place))
    try:
        call(build / "oo1-generate", "--parts", PARTS, "--locality", "yes", "--seed", GRAPH_SEED, room / "graph")
        for layout in ("oo1", "paper"):
            loaded = json.loads(call(program, "load", room / "graph", room / layout, "--layout", layout).stdout)
            check("parts loaded", loaded["parts"], PARTS)
            before = fingerprint(room / layout)
            for measure in ("traversal", "reverse", "lookup", "insert"):
                if (layout, measure) == ("paper", "reverse"):
                    continue
                graph = Graph(room / "graph")
                words = [program, "run", room / layout, "--measure", measure, "--protocol", "oo1", "--seed", SEED]
                ran = json.loads(call(*words).stdout)
                checksum, visited = expected(graph, measure, layout)
                where = f"{mode}, {layout}, {measure}: "
                check(where + "visited", ran["visited"], visited)
                check(where + "checksum", ran["checksum"], checksum)
                check(where + "graph", ran["graph"], f"{graph.digest:016x}")
                check(where + "phases", [(p["name"], len(p["wall_ns"])) for p in ran["phases"]], [("cold", 1), ("warm", 9)])
                if measure == "traversal":
                    check(where + "parts in seven hops", set(ran["visited"]), {3280})
                    dropped = json.loads(call(*words, "--drop-cache").stdout)
                    check(where + "checksum with a cold cache", dropped["checksum"], checksum)
                    if mode.startswith("p3l"):
                        limited = json.loads(call(*words, "--memory-limit", 4 << 20, "--prefetch").stdout)
                        check(where + "checksum with prefetch and a limit", limited["checksum"], checksum)
                        ordered = json.loads(call(*words, "--discovery-order").stdout)
                        check(where + "checksum in the order of discovery", ordered["checksum"], checksum)
                        check(where + "pages in place then", ordered["statistics"]["pages_adopted"], 0)
                if measure == "insert":
                    check(where + "durable", ran["durable"], not mode.startswith("plain"))
                    check(where + "appends beside", len(ran["raw_wall_ns"]), 10)
            if mode != "pmemobj":  # records in its pool that it was opened
                check(f"{mode}, {layout}: the store after all", fingerprint(room / layout), before)
        refusals(build, program, mode, Graph(room / "graph"), room)
    finally:
        shutil.rmtree(room)


main()
