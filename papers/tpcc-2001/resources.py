"""The article's first step computes the hardware that a rate needs. Bytes are those of a database loaded by Hardmeter, the rest is computed.

The I/O model: each transaction touches pages by the specification's distributions; the pages touched most often lie in memory
(no replacement is better, so the reads are the fewest possible); each other touch is a read, and a write if it changes
the page. Pages in memory that change are written once by each checkpoint.
"""

from dataclasses import dataclass

import article

PAGE = 8192
CHECKPOINT_SECONDS = 1800  # at most (clause 5.5.2.2)
DAYS, MINUTES_A_DAY = 60, 480  # clause 4.2.3: 60 days of 8 hours
# Rows per leaf page of Hardmeter's indexes: bytes of an entry, with its tuple header and a fill of 90 %.
LEAF_ROWS, LEAF_ROWS_BY_NAME = 366, 150


@dataclass
class Pages:
    """A group of equal pages: their number, the touches of each per second, and the share of touches that change
    them.
    """

    name: str
    count: float
    rate: float
    changing: float


def nurand(a_bits: int, low: int, high: int):
    """The distribution of NURand(2^a_bits - 1, low, high) with C = 0, which only turns it round, as shares.

    Of the OR of two numbers, low bits and high bits are independent but for the last, incomplete block of the range, which is
    taken as complete: 2 % of the items.
    """
    block = 1 << a_bits
    weights = [3 ** bin(value).count("1") for value in range(block)]
    shares = [weights[value % block] for value in range(low, high + 1)]
    total = sum(shares)
    return [share / total for share in shares]


def folded(shares, rows):
    """Returns the shares of pages that hold `rows` rows each, in order."""
    rows = max(1, round(rows))
    return [sum(shares[at : at + rows]) for at in range(0, len(shares), rows)]


def page_classes(sizes, warehouses, rates):
    """Returns all pages that transactions touch at random; `rates`: transactions per second by kind, of the whole
    system.
    """
    new_order, payment, status, delivery, level = (rate / warehouses for rate in rates)
    tables, loaded = sizes["tables"], sizes["warehouses"]
    rows_of = {name: table["rows"] / table["pages"] for name, table in tables.items()}
    classes = []

    def add(name, shares, touches, changes, copies=1):
        """`touches` and `changes`: a second and warehouse."""
        for share in shares:
            classes.append(Pages(name, warehouses * copies, share * touches / copies, share * changes / copies))

    items = nurand(13, 1, 100_000)
    # Each of ten lines per order reads and changes a row of STOCK; Stock-Level reads those of 20 orders.
    stock = (10 * new_order + 200 * level, 10 * new_order)
    add("stock", folded(items, rows_of["stock"]), *stock)
    add("stock, index", folded(items, LEAF_ROWS), stock[0], 0)
    # By number: New-Order, 40 % of Payments and Order-Statuses, and the customers of a Delivery's ten orders, which
    # it changes. The ten districts have equal distributions.
    by_number = nurand(10, 1, 3000)
    numbered = (new_order + 0.4 * (payment + status) + 10 * delivery, 0.4 * payment + 10 * delivery)
    # By name: three rows on average, one of which changes. One of the tables was loaded in the order of names; the
    # rows of the others are spread at random.
    uniform = [1 / 3000] * 3000
    ordered = nurand(8, 0, 999) + [0.0] * 2000
    by_name = [(one + 2 * other) / 3 for one, other in zip(ordered, uniform)]
    named = 0.6 * (payment + status)
    rows = rows_of["customer"]
    for number, name in zip(folded(by_number, rows), folded(by_name, rows)):
        touches = numbered[0] * number + 3 * named * name
        changes = numbered[1] * number + 0.6 * payment * name
        classes.append(Pages("customer", 10 * warehouses, touches / 10, changes / 10))
    add("customer, index", folded(by_number, LEAF_ROWS), numbered[0], 0, copies=10)
    add("customer, index of names", folded(uniform, LEAF_ROWS_BY_NAME), named, 0, copies=10)
    # Order-Status reads a customer's last order: one random page each of ORDERS, its index, and ORDER-LINE.
    for name, pages in (("orders", "orders"), ("order_line", "order_line")):
        count = tables[pages]["pages"] / loaded
        add(f"{name}, last order", [1 / count] * round(count), status, 0)
    # Deliveries read and change consecutive orders: a page serves several and is not needed again. Pages touched once
    # a day are never worth keeping.
    for name, per_order in (("orders", 1), ("order_line", 10)):
        pages = 10 * delivery * per_order / rows_of[name]
        classes.append(Pages(f"{name}, delivered", warehouses * pages * 86400, 1 / 86400, 1 / 86400))
    return sorted(classes, key=lambda pages: -pages.rate)


@dataclass
class Disk:
    """Disk operations per second."""

    reads: float
    writes: float
    checkpoint: float
    hits: float

    @property
    def all(self):
        return self.reads + self.writes + self.checkpoint


def disk_traffic(classes, memory):
    """With the pages touched most often in memory."""
    room, reads, writes, dirty, touches = memory / PAGE, 0.0, 0.0, 0.0, 0.0
    for pages in classes:
        kept = min(pages.count, room)
        room -= kept
        touches += pages.count * pages.rate
        reads += (pages.count - kept) * pages.rate
        writes += (pages.count - kept) * pages.changing
        # A page that changes less than once in a checkpoint's time is written as often as it changes.
        dirty += kept * min(pages.changing, 1 / CHECKPOINT_SECONDS)
    return Disk(reads, writes, dirty, 1 - reads / touches)


@dataclass
class Space:
    """Bytes of the tables without and with indexes, and the growth in 60 days."""

    tables: dict
    loaded: float
    growth_of_a_day: float

    @property
    def sixty_days(self):
        return self.loaded + DAYS * self.growth_of_a_day


def space(sizes, warehouses, rate, payments_per_order):
    tables = {}
    for name, table in sizes["tables"].items():
        factor = 1 if name == "item" else warehouses / sizes["warehouses"]
        tables[name] = (table["bytes"] * factor, table["index_bytes"] * factor)
    bytes_of = lambda name: sum(sizes["tables"][name][key] for key in ("bytes", "index_bytes"))  # noqa: E731
    orders = sizes["tables"]["orders"]["rows"]
    of_order = (bytes_of("orders") + bytes_of("order_line")) / orders
    of_payment = bytes_of("history") / sizes["tables"]["history"]["rows"]
    day = rate * MINUTES_A_DAY * (of_order + payments_per_order * of_payment)
    return Space(tables, sum(map(sum, tables.values())), day)


def screened(name, rate):
    """Prints what the article's table requires for a rate."""
    what, low, high = article.SCREENING[name]
    if rate < low:
        verdict = "no worry"
    elif high is None or rate < high:
        verdict = "watch it"
    else:
        verdict = "too much"
    return what, rate, low, high, verdict
