"""The paper of 2003: its arithmetic, and the reading of what hardmeter and a terminal print."""

import sys
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "papers/hardmeter-2003"), str(REPOSITORY / "bench/common")]

import builds  # noqa: E402
import captures  # noqa: E402
import evidence  # noqa: E402
import isolated  # noqa: E402
import locks  # noqa: E402
import misses  # noqa: E402
import paper  # noqa: E402
import screen  # noqa: E402
import surroundings  # noqa: E402


def report(rows: "list[tuple[int, str, str]]") -> dict:
    """What `hardmeter report --by address,routine,operation --format json` prints of one event: loads, and a store."""
    store = {"count": 100, "address": "0x46cabb", "routine": "LWLockRelease", "operation": "store"}
    loads = [{"count": n, "address": a, "routine": r, "operation": "load"} for n, a, r in rows]
    total = sum(row["count"] for row in [store, *loads])
    return {"tables": [{"event": "l1d-miss", "samples": total, "events": 1001 * total, "rows": [store, *loads]}]}


class ThePapersFigures(unittest.TestCase):
    def test_the_rows_of_the_lock_add_up_to_what_the_paper_compares(self) -> None:
        before, after = paper.of_locks(paper.TABLE_7), paper.of_locks(paper.TABLE_8)
        self.assertEqual((before, after), (58_173, 50_540))
        self.assertAlmostEqual(100 * (after / before - 1), -13.1, 1)

    def test_each_table_is_sorted_and_part_of_its_total(self) -> None:
        tables = [(paper.TABLE_5, paper.TABLE_5_ALL), (paper.TABLE_6, paper.TABLE_6_ALL)]
        tables += [(paper.TABLE_7, paper.TABLE_7_ALL), (paper.TABLE_8, paper.TABLE_8_ALL)]
        for table, total in tables:
            counts = [count for count, _, _ in table]
            self.assertEqual((len(counts), counts), (10, sorted(counts, reverse=True)))
            self.assertLess(sum(counts), total)

    def test_two_experiments_with_one_program_differ_by_more_than_the_effect(self) -> None:
        once, of_four = locks.at_the_same_addresses()
        self.assertEqual((once, of_four), (22_649, 58_173))
        self.assertAlmostEqual(100 * (of_four / paper.RUNS / once - 1), -35.8, 1)

    def test_the_model_has_the_latencies_of_table_1(self) -> None:
        self.assertEqual(surroundings.modelled_ns(surroundings.model()), paper.TABLE_1)


class Reading(unittest.TestCase):
    def test_counts_of_a_report_by_address_and_routine(self) -> None:
        rows = [(7, "0x46cabb", "LWLockRelease"), (3, "0x46cadc", "LWLockRelease"), (5, "0x12", "other")]
        hits = captures.read_hits(report(rows), "l1d-miss")
        self.assertEqual((hits.total, hits.period), (15, 1001))
        self.assertEqual(hits.places.most_common(1), [(("0046cabb", "LWLockRelease"), 7)])
        self.assertEqual(hits.of_routines(paper.LOCK_ROUTINES), 10)
        both = captures.together([hits, hits])
        self.assertEqual((both.total, both.of_routines(["other"])), (30, 10))
        lines = misses.side_by_side(hits, paper.TABLE_5, paper.TABLE_5_ALL)
        self.assertEqual(lines[2].split(), "7 46.67 % 0046cabb LWLockRelease 7,523 8.39 % LWLockRelease".split())
        self.assertEqual(len(lines), 12)

    def test_an_event_that_was_not_recorded_is_named(self) -> None:
        with self.assertRaisesRegex(captures.Failure, "no event l2-miss"):
            captures.read_hits(report([]), "l2-miss")

    def test_a_record_is_printed_as_the_paper_does(self) -> None:
        registers = {name: "0x10" for name in misses.REGISTERS}
        record = {"registers": registers, "data_address": "0x9a38d0", "latency": 324, "level": "DRAM"}
        line = misses.record_line(record)
        self.assertTrue(line.startswith("00000010 0000000010 "), line)
        self.assertTrue(line.endswith(" | 00009a38d0  324 DRAM"), line)

    def test_a_screen_is_what_the_terminal_shows_in_the_end(self) -> None:
        output = "\x1b[?1049h\x1b[2Jwrong\x1b[1;1H\x1b[1mright\x1b[0m\x1b[3;5Hthird\r\n\x1b[1;3H\x1b[K"
        self.assertEqual(screen.draw(output, rows=5, columns=20), ["ri", "", "    third"])

    def test_versions_are_sorted_by_their_numbers(self) -> None:
        versions = ["15.9-0+deb12u1", "15.18-0+deb12u1", "15.20-0+deb12u1"]
        self.assertEqual(max(versions, key=builds.parts_of), "15.20-0+deb12u1")


class TheLockAlone(unittest.TestCase):
    def test_looks_that_test_and_set_cost_twice_as_many_misses(self) -> None:
        # Each look but the first misses the write before it. One that tests and sets costs the next write a miss, too.
        self.assertEqual(isolated.expected_of_looks("tas", 10), {"coherence-miss": 18, "invalidation": 19})
        self.assertEqual(isolated.expected_of_looks("read", 10), {"coherence-miss": 9, "invalidation": 9})

    def test_takings_of_a_lock_for_one_write(self) -> None:
        # First: test and set, write, release. Second: test and set (taken), again, then it has the lock.
        #   accesses        1 t  2 t  1 w  2 t  1 r  2 t  2 w  2 r
        #   misses                     1    2    1    2
        #   takes it from        1    2    1    2    1
        self.assertEqual(isolated.expected_of_takings("tas", 1, 1), {"coherence-miss": 4, "invalidation": 5})
        # The second one reads after it has failed, and tests and sets when it has read that the lock is free.
        #   accesses        1 t  2 t  1 w  2 read  1 r  2 read  2 t  2 w  2 r
        #   misses                     1    2            2
        #   takes it from        1    2            2            1
        self.assertEqual(isolated.expected_of_takings("read", 1, 1), {"coherence-miss": 3, "invalidation": 4})

    def test_runs_of_both_sides_are_interleaved(self) -> None:
        try:
            order = locks.order(4)
        except evidence.Unavailable as error:
            self.skipTest(str(error))
        self.assertEqual(sorted(order), ["improved"] * 4 + ["original"] * 4)
        self.assertEqual((order[:4], order[4:]), (order[3::-1], order[:3:-1]))


if __name__ == "__main__":
    unittest.main()
