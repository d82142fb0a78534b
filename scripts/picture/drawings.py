"""The contents of the pictures as data: boxes by place, arrows by the sides that they join."""

from __future__ import annotations

from collections.abc import Iterator

from picture.canvas import Drawing


def all_drawings() -> Iterator[tuple[str, Drawing]]:
    """Each picture with the name of its file."""
    yield "parts", parts()
    yield "run-time", run_time()
    yield "first-hour", first_hour()


def parts() -> Drawing:
    """The five parts as a loop: measure, finding, remedy, trial."""
    d = Drawing(960, 430, "The parts of Hardmeter as a loop: measure, finding, remedy, trial")
    measure = d.box(20, 110, 220, 110, "part", "measure", "what stalls, where, why,", "for which statement?", "hardware | live | simulated")
    advise = d.box(370, 110, 220, 110, "part", "advise", "finding to remedy,", "hardmeter tune", "trial, ledger, undo")
    d.box(700, 20, 240, 292, "floor", "remedies")
    d.box(715, 52, 210, 60, "part", "place", "requests to cores (SPLiT)")
    d.box(715, 120, 210, 60, "part", "plan", "batch operators (ccopt)")
    d.box(715, 188, 210, 60, "part", "persist", "persistent objects (P3L)")
    d.box(715, 256, 210, 44, "floor", "a setting, the schema")
    prove = d.box(370, 262, 220, 76, "part", "prove", "tpcc, tpch, auction, oo1", "gain or loss, with interval")
    d.box(20, 366, 920, 50, "floor", "evidence/ and ground/", "figures, intervals, tables; samples, statements, machine models, servers")
    d.arrow(measure.side("right"), advise.side("left"), label="finding")
    d.arrow(advise.side("right"), (700, 165), label="remedy")
    d.arrow((700, 300), prove.side("right"), label="trial: blocks with\nand without it", at=(645, 318))
    d.arrow(prove.side("left"), (130, 300), measure.side("bottom"), label="did it help?", at=(250, 292))
    return d


def run_time() -> Drawing:
    """Processes, files and shared segments while the parts run."""
    d = Drawing(1120, 700, "Processes (green), files (yellow) and shared memory (red) at run time")
    # measure
    d.box(10, 10, 1100, 250, "floor", "measure")
    kernel = d.box(25, 45, 250, 60, "shared", "perf_event rings", "kernel: PEBS, IBS, timer, probes")
    simulated = d.box(25, 120, 250, 60, "process", "server under Valgrind", "one simulator per process")
    segment = d.box(25, 195, 250, 56, "shared", "segment of softpmu", "/dev/shm: ring, caches, switches")
    record = d.box(390, 75, 210, 76, "process", "hardmeter record", "one loop copies both rings", "observer thread: objects")
    server = d.box(390, 195, 210, 56, "process", "server's own memory", "read through /proc/PID/mem")
    data = d.box(695, 45, 210, 44, "file", "hardmeter.data", "perf.data: samples")
    side = d.box(695, 105, 210, 44, "file", "hardmeter.data.json", "counts, geometry, statements")
    objects = d.box(695, 165, 210, 60, "file", "hardmeter.data.objects", "address ranges, time spans,", "names")
    views = d.box(960, 95, 140, 94, "process", "hardmeter", "report, why,", "objects, queries,", "sharing, pages")
    d.arrow(kernel.side("right"), (330, 75), (330, 100), (390, 100), label="records", at=(333, 68))
    d.arrow(simulated.side("bottom"), segment.side("top"))
    d.arrow(segment.side("right"), (330, 223), (330, 130), (390, 130), label="same\nrecords", at=(325, 180), anchor="end")
    d.arrow(server.side("top"), record.side("bottom"), label="reads only", at=(500, 178), anchor="start")
    for file, y in ((data, 67), (side, 127), (objects, 195)):
        d.arrow((600, 113), (650, 113), (650, y), file.side("left"))
        d.arrow(file.side("right"), (930, y), (930, 142), views.side("left"))
    # place
    d.box(10, 275, 545, 215, "floor", "place")
    d.box(25, 310, 220, 76, "process", "server with libsplit", "module of Apache, MariaDB, ...:", "sections of requests")
    d.box(300, 310, 240, 76, "shared", "app-ID.segment, ...", "/run/hardmeter-split: records,", "decisions, probe pages")
    analyzer = d.box(300, 420, 240, 60, "process", "hardmeter split analyze", "scores, policy, guard")
    state = d.box(25, 420, 220, 60, "file", "analyzer-state.json", "split top, report, metrics")
    d.arrow((245, 335), (300, 335))
    d.arrow((300, 365), (245, 365))
    d.arrow((390, 386), (390, 420), label="records", at=(382, 407), anchor="end")
    d.arrow((450, 420), (450, 386), label="decisions", at=(458, 407), anchor="start")
    d.arrow(analyzer.side("left"), state.side("right"))
    # plan
    d.box(570, 275, 540, 215, "floor", "plan")
    backend = d.box(585, 310, 250, 76, "process", "PostgreSQL backend", "ccopt.so: paths for the planner,", "batch operators, explain")
    d.box(880, 310, 215, 76, "shared", "server's shared memory", "times of query shapes,", "counts (ccopt_stats)")
    table = d.box(585, 420, 250, 60, "file", "table ccopt.calibration", "costs measured on this machine")
    d.arrow((835, 335), (880, 335))
    d.arrow((880, 365), (835, 365))
    d.arrow(table.side("top"), backend.side("bottom"))
    # persist
    d.box(10, 505, 545, 185, "floor", "persist")
    d.box(25, 545, 230, 94, "process", "program with libp3l", "ordinary pointers; checks by", "p3l-clang or pptr<T>;", "one writer or many readers")
    store = d.box(330, 545, 210, 44, "file", "STORE", "pages of objects")
    log = d.box(330, 605, 210, 60, "file", "STORE-log", "redo log; folded into STORE", "at a checkpoint")
    d.arrow(store.side("left"), (255, 567), label="pages", at=(292, 562))
    d.arrow((255, 625), (330, 625), label="commits", at=(292, 620))
    d.arrow(log.side("top"), store.side("bottom"))
    # prove
    d.box(570, 505, 540, 185, "floor", "prove")
    d.box(585, 545, 230, 94, "process", "hardmeter tpcc run", "terminals, monitor,", "connections; also tpch,", "auction, oo1")
    target = d.box(890, 545, 205, 44, "process", "server under test", "PostgreSQL, MariaDB")
    d.box(890, 605, 205, 60, "file", "result (JSON)", "histograms, errors, settings;", "show, compare, merge")
    d.arrow((815, 567), target.side("left"), label="SQL", at=(852, 562))
    d.arrow((815, 625), (890, 625))
    return d


def first_hour() -> Drawing:
    """The commands of a first hour, in their order: docs/measure.md."""
    d = Drawing(960, 230, "From a load to a proven remedy: record, read, find a remedy, try it")
    server = d.box(15, 90, 150, 60, "process", "your server", "its own traffic,", "or a load")
    capture = d.box(245, 90, 170, 60, "file", "hardmeter.data", "samples, and what they", "are on")
    views = [("objects", "on what?"), ("queries", "for whom?"), ("report, annotate", "where?"), ("why", "why?")]
    for row, (name, question) in enumerate(views):
        box = d.box(495, 15 + row * 52, 170, 44, "part", name, question)
        d.arrow((415, 120), (455, 120), (455, 37 + row * 52), box.side("left"))
        d.arrow(box.side("right"), (705, 37 + row * 52), (705, 62), (740, 62))
    tune = d.box(740, 32, 205, 60, "part", "tune", "which remedy, and what it", "would bring")
    trial = d.box(740, 140, 205, 60, "part", "tune try", "proven in blocks, or", "undone")
    d.arrow(server.side("right"), capture.side("left"), label="record")
    d.arrow(tune.side("bottom"), trial.side("top"), label="a remedy", at=(850, 121), anchor="start")
    d.arrow(trial.side("bottom"), (842, 222), (90, 222), server.side("bottom"))
    return d
