"""The figures of the paper: H. Yoshioka, A Memory Profiling Tool for Performance Tuning of OLTP Workloads (2003)."""

Row = tuple[int, str, str]  # samples, address, routine

PERIOD = 10_000  # events a sample
CLIENTS, TRANSACTIONS = 10, 1000  # pgbench -c 10 -t 1000

# Table 1: nanoseconds.
TABLE_1 = {"L1": 1, "L2": 9, "memory": 196}

# Table 3: the machine.
TABLE_3 = {
    "CPU": "Intel Xeon",
    "clock": "2.0 GHz",
    "memory": "1 GB",
    "L1 data cache": "8 KB, 4 ways, lines of 64 bytes",
    "instructions": "12K-uop trace cache",
    "L2 cache": "512 KB, 8 ways, lines of 64 bytes",
}

# Table 4: the tables of pgbench at scale 1, and their rows before a run.
TABLE_4 = {"branches": 1, "tellers": 10, "accounts": 100_000, "history": 0}
TPS = 185.972150

# Tables 5 and 6: where L1 and L2 misses were sampled in one run; all samples of that run.
TABLE_5_ALL, TABLE_6_ALL = 89_709, 11_475
TABLE_5: list[Row] = [
    (7523, "08122b67", "LWLockRelease"),
    (5581, "0812294b", "LWLockAcquire"),
    (4795, "08122967", "LWLockAcquire"),
    (4750, "08122b71", "LWLockRelease"),
    (1992, "0812293e", "LWLockAcquire"),
    (1429, "0816ac8e", "SearchCatCache"),
    (1423, "0811a2fc", "ReadBufferInternal"),
    (1281, "080768e4", "heapgettup"),
    (1271, "081803ba", "HeapTupleSatisfiesSnapshot"),
    (1235, "08175051", "hash_search"),
]
TABLE_6: list[Row] = [
    (739, "080956c1", "OpernameGetCandidates"),
    (634, "080e3f16", "DLMoveToFront"),
    (499, "080e3f0f", "DLMoveToFront"),
    (476, "0816ac8e", "SearchCatCache"),
    (363, "0816a683", "AtEOXact_CatCache"),
    (335, "08175051", "hash_search"),
    (329, "08180260", "HeapTupleSatisfiesSnapshot"),
    (307, "081804a0", "HeapTupleSatisfiesSnapshot"),
    (251, "08095700", "OpernameGetCandidates"),
    (227, "080e3f23", "DLMoveToFront"),
]

# Tables 7 and 8: L1 misses of four runs each, with the spin lock as it was and with the inner loop.
RUNS = 4
TABLE_7_ALL, TABLE_8_ALL = 280_759, 265_927
TABLE_7: list[Row] = [
    (15551, "08122b67", "LWLockRelease"),
    (15429, "08122967", "LWLockAcquire"),
    (14558, "0812294b", "LWLockAcquire"),
    (12635, "08122b71", "LWLockRelease"),
    (5683, "081803ba", "HeapTupleSatisfiesSnapshot"),
    (5556, "0816ac8e", "SearchCatCache"),
    (4917, "080768e4", "heapgettup"),
    (4653, "0807ee60", "_bt_isequal"),
    (3776, "08175051", "hash_search"),
    (3736, "0811a752", "write_buffer"),
]
TABLE_8: list[Row] = [
    (13771, "0812294b", "LWLockAcquire"),
    (13198, "08122b67", "LWLockRelease"),
    (13098, "08122967", "LWLockAcquire"),
    (10473, "08122b71", "LWLockRelease"),
    (5695, "081803ca", "HeapTupleSatisfiesSnapshot"),
    (5417, "0816ac9e", "SearchCatCache"),
    (5060, "080768e4", "heapgettup"),
    (4210, "0807ee60", "_bt_isequal"),
    (3914, "08175061", "hash_search"),
    (3821, "08095672", "OpernameGetCandidates"),
]
CLAIM = "about 15 % fewer in LWLockAcquire and LWLockRelease"

# The routines of the experiment. What takes the lock is a routine of its own in PostgreSQL 15, and part of
# LWLockAcquire in 7.3.
LOCK_ROUTINES = ("LWLockAcquire", "LWLockAttemptLock", "LWLockRelease")


def of_locks(table: list[Row]) -> int:
    """The samples of a table's rows in the lock's two routines."""
    return sum(count for count, _, routine in table if routine in LOCK_ROUTINES)
