"""The load on WordPress: visitors at predetermined times, and a crawler that always has its requests under way.

A visitor's latency counts from the intended start of the request, so that the wait behind others is included. Each answer must have status
200 and the text that belongs to it: the title of the post, that of the newest post on the front page, the searched words, the end of a
feed, every post of an export. The threads of the load run before all other processes (SCHED_FIFO), if that is allowed, because
they represent clients on other machines.
"""

import contextlib
import http.client
import os
import queue
import random
import threading
import time
import urllib.parse
from dataclasses import dataclass
from typing import Dict, Iterator, List, Sequence, Set, Tuple

from processes import Trouble
from wordpress_site import POSTS, WordPress

VISITORS = 10  # connections; with those of the crawler fewer than Apache's workers
FRONT = 0.2  # of the visits; all others are to single posts, new ones more often
EXPORT = "/wp-admin/export.php?download=true&content=posts"
PIECE = 1 << 16


@dataclass
class Block:
    """The measurements of one block."""

    latencies: List[float]  # milliseconds of each visit that was due in the block, sorted
    begin: float
    end: float

    def quantile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]

    @property
    def mean(self) -> float:
        return sum(self.latencies) / len(self.latencies)


class Load:
    """Visitors, and the crawler while it is switched on; blocks are cut out of it."""

    def __init__(self, site: WordPress, rate: float, crawler: Sequence[str]):
        self._site, self._rate, self._kinds = site, rate, crawler
        self.errors: List[str] = []
        self.answers = 0
        self._visits: List[Tuple[float, float]] = []  # intended start, seconds until the last byte
        self._pieces: List[Tuple[str, float, float, float]] = []  # kind, begin, end, the part of a request that was done
        self._due: "queue.SimpleQueue[Tuple[int, float, str, str]]" = queue.SimpleQueue()
        self._open: Dict[int, float] = {}  # the intended starts of visits that have not ended
        self._under_way: Set[int] = set()  # connections of the crawler
        self._stop, self._crawling = threading.Event(), threading.Event()
        self._posts = list(site.titles.items())
        self._cookie = site.cookie()
        self._export_bytes = 0.0

    def costs(self, times: int = 3) -> Dict[str, float]:
        """Seconds that a request of each kind takes on the idle site: the median. The first of each is not counted."""
        costs, chance = {}, random.Random(3)
        for kind in sorted(set(self._kinds)):
            took = []
            connection = self._site.connect()
            for _ in range(times + 1):
                begin = time.monotonic()
                self._crawl(connection, kind, chance)
                took.append(time.monotonic() - begin)
            costs[kind] = sorted(took[1:])[times // 2]
        self._pieces.clear()
        return costs

    @contextlib.contextmanager
    def running(self) -> Iterator["Load"]:
        threads = [threading.Thread(target=self._visitor, daemon=True) for _ in range(VISITORS)]
        threads += [threading.Thread(target=self._crawler, args=one, daemon=True) for one in enumerate(self._kinds)]
        threads.append(threading.Thread(target=self._clock, daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._crawling.set()
            for thread in threads:
                thread.join(timeout=60)

    def crawl(self, on: bool) -> None:
        """The crawler's requests under way are not ended."""
        (self._crawling.set if on else self._crawling.clear)()

    def drain(self) -> None:
        """Has the crawler rest, and waits until its requests under way have ended."""
        self._crawling.clear()
        deadline = time.monotonic() + 120
        while self._under_way:
            if time.monotonic() > deadline:
                raise Trouble("the crawler's requests take longer than two minutes\n  remedy: a calmer machine")
            time.sleep(0.05)

    def block(self, seconds: float) -> Block:
        """Measures the next seconds, and waits for the visits that were due in them."""
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        while any(due < end for due in list(self._open.values())):
            if time.monotonic() > end + 60:
                raise Trouble("visits take longer than a minute\n  remedy: a calmer machine")
            time.sleep(0.05)
        latencies = sorted(1e3 * took for due, took in list(self._visits) if begin <= due < end)
        if not latencies:
            raise Trouble("no visit was due in a block")
        return Block(latencies, begin, end)

    def crawled(self, block: Block) -> Dict[str, float]:
        """Requests a second of the crawler in a block, by kind: of a request that began or ended outside the part within. Complete only
        when the requests of the block have ended."""
        done: Dict[str, float] = {kind: 0.0 for kind in self._kinds}
        for kind, begin, end, part in list(self._pieces):
            done[kind] += part * max(0.0, min(end, block.end) - max(begin, block.begin)) / (end - begin)
        return {kind: amount / (block.end - block.begin) for kind, amount in done.items()}

    # --- Visitors ---

    def _clock(self) -> None:
        _first()
        chance, number, due = random.Random(7), 0, time.monotonic()
        while not self._stop.is_set():
            due += chance.expovariate(self._rate)
            time.sleep(max(0.0, due - time.monotonic()))
            path, title = self._posts[-1 - min(POSTS - 1, int(chance.expovariate(1 / 200)))]
            if chance.random() < FRONT:
                path, title = "/", self._posts[-1][1]
            self._open[number] = due
            self._due.put((number, due, path, title))
            number += 1

    def _visitor(self) -> None:
        _first()
        connection = self._site.connect()
        while not self._stop.is_set():
            try:
                number, due, path, title = self._due.get(timeout=0.2)
            except queue.Empty:
                continue
            self._visit(connection, path, title)
            self._visits.append((due, time.monotonic() - due))
            del self._open[number]
        connection.close()

    def _visit(self, connection: http.client.HTTPConnection, path: str, title: str) -> None:
        with self._counting(connection, path):
            connection.request("GET", path)
            answer = connection.getresponse()
            self._check(path, answer.status, title.encode() in answer.read())

    # --- The crawler ---

    def _crawler(self, seed: int, kind: str) -> None:
        _first()
        connection, chance = self._site.connect(), random.Random(seed)
        while not self._stop.is_set():
            if not self._crawling.wait(timeout=0.2):
                continue
            self._under_way.add(seed)
            if self._crawling.is_set() and not self._stop.is_set():
                self._crawl(connection, kind, chance)
            self._under_way.discard(seed)
        connection.close()

    def _crawl(self, connection: http.client.HTTPConnection, kind: str, chance: random.Random) -> None:
        if kind == "export":
            self._export(connection)
            return
        words = chance.sample(self._site.words, 2)
        day = time.gmtime(1_641_024_000 + chance.randrange(POSTS) * 12 * 3600)
        path, text = {
            "search": ("/?" + urllib.parse.urlencode({"s": " ".join(words)}), words[0]),
            "feed": (f"/feed/?paged={chance.randrange(1, POSTS // 10)}", "</rss>"),
            "archive": (time.strftime("/%Y/%m/", day), "Number "),
        }[kind]
        begin = time.monotonic()
        with self._counting(connection, path):
            connection.request("GET", path)
            answer = connection.getresponse()
            self._check(path, answer.status, text.encode() in answer.read())
            self._pieces.append((kind, begin, time.monotonic(), 1.0))

    def _export(self, connection: http.client.HTTPConnection) -> None:
        """The part that was done is that of the bytes that came, except for the first export, whose size is not known before."""
        with self._counting(connection, EXPORT):
            begin = last = time.monotonic()
            connection.request("GET", EXPORT, headers={"Cookie": self._cookie})
            answer = connection.getresponse()
            items, total, tail = 0, 0, b""
            while (piece := answer.read(PIECE)) and not self._stop.is_set():
                now = time.monotonic()
                if self._export_bytes:
                    self._pieces.append(("export", last, now, len(piece) / self._export_bytes))
                last, total = now, total + len(piece)
                items, tail = items + (tail + piece).count(b"<item>"), piece[-5:]
            if self._stop.is_set():
                connection.close()
                return
            self._check(EXPORT, answer.status, items == POSTS + 1)
            if not self._export_bytes:
                self._export_bytes = float(total)
                self._pieces.append(("export", begin, last, 1.0))

    # --- Answers ---

    @contextlib.contextmanager
    def _counting(self, connection: http.client.HTTPConnection, path: str) -> Iterator[None]:
        self.answers += 1
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            if not self._stop.is_set():
                self.errors.append(f"{path}: {error}")
            connection.close()  # the next request opens it again

    def _check(self, path: str, status: int, has_text: bool) -> None:
        if status != 200 or not has_text:
            self.errors.append(f"{path}: status {status}{'' if has_text else ', without the text that belongs to it'}")


def _first() -> None:
    """Gives this thread priority over all others of this machine, if that is allowed."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
