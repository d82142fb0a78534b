"""The figures of the article: Kuroki, Izuta, Ozawa, Doi, TPC-C on a large SMP (in Japanese, 2001)."""

WAREHOUSES = 39_000
TERMINALS = 390_000
RATE = 455_818  # New-Orders a minute
CPUS = 128
MEMORY = 256 * 2**30
DISKS, DISK_SETS, DISK_BYTES = 1_624, 40, 28e12
DATABASE_BYTES = 5e12
DRIVERS, CLIENTS = 33, 66

# "From about these rates on, watch": per second.
SCREENING = {
    "disk": ("random I/O of a disk", 50, 200),
    "controller": ("I/O of a controller", 500, 5_000),
    "syscalls_cpu": ("system calls of a CPU", 300, 50_000),
    "packets": ("packets of a network card", 5_000, 50_000),
    "syscalls": ("system calls of the system", 30_000, None),
}
# The article's example of effective multiplicity: CPU time, number of waits, time of a wait, in ms.
EXAMPLE = (40, 16, 10)

# Clauses 5.2.3, 5.2.5.7: New-Order, Payment, Order-Status, Delivery, Stock-Level.
KEYING = [18, 3, 2, 2, 2]
THINK = [12, 12, 10, 5, 5]
MIXES = {
    "45/43/4/4/4, clause 5.2.3's limits": [0.45, 0.43, 0.04, 0.04, 0.04],
    "our adjusted weights (clause 5.2.4.2)": [0.4405, 0.4335, 0.042, 0.042, 0.042],
    "decks of 23 cards (clause 5.2.4.2)": [count / 23 for count in (10, 10, 1, 1, 1)],
}
OURS = "our adjusted weights (clause 5.2.4.2)"


def cycle(shares, think_factor=1.0):
    """Seconds of a terminal from one transaction to the next on average, without the answer's time."""
    return sum(share * (key + think * think_factor) for share, key, think in zip(shares, KEYING, THINK))


def per_warehouse(shares, response, think_factor=1.0):
    """Returns the New-Orders per minute of ten terminals."""
    return 600 * shares[0] / (cycle(shares, think_factor) + response)
