"""Each benchmark starts, and prints its table's heading; figures and orders come from the evidence library."""

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path += [str(REPOSITORY / "bench/common"), str(REPOSITORY / "bench/live")]

import evidence  # noqa: E402
import figure  # noqa: E402
import servers  # noqa: E402
import variation  # noqa: E402
from processes import Trouble  # noqa: E402


class EachBenchmarkStarts(unittest.TestCase):
    def test_lists_its_parts(self) -> None:
        programs = sorted(REPOSITORY.glob("bench/*/run"))
        self.assertGreaterEqual(len(programs), 6)
        for program in programs:
            with self.subTest(program=program.parent.name):
                done = subprocess.run([program, "--list"], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                heading, *parts = done.stdout.splitlines()
                self.assertEqual(heading, figure.HEADING)
                self.assertTrue(parts and all(part.startswith("# ") for part in parts), parts)

    def test_refuses_an_unknown_part(self) -> None:
        program = REPOSITORY / "bench/plan/run"
        done = subprocess.run([program, "--only", "nothing"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("invalid choice: 'nothing'", done.stderr)


class Servers(unittest.TestCase):
    def test_a_server_whose_folder_another_program_removed_is_ended_and_reported(self) -> None:
        with tempfile.TemporaryDirectory() as playground:
            server = servers.Server("native", Path(playground), 1, {})
            (server.folder / "data").mkdir(parents=True)
            with subprocess.Popen(["sleep", "600"], cwd=server.folder / "data") as process:
                server.postmaster = process.pid
                shutil.rmtree(server.folder)
                with self.assertRaisesRegex(Trouble, "another program removed .*state.json"):
                    server.stop()
                self.assertEqual(process.wait(), -signal.SIGQUIT)


class Live(unittest.TestCase):
    def test_variation_is_half_the_sum_of_differences(self) -> None:
        one = variation.Shares({("table", "a"): 0.5, ("index", "b"): 0.5}, 100, 100)
        other = variation.Shares({("table", "a"): 0.75, ("index", "c"): 0.25}, 100, 100)
        self.assertEqual(variation.apart(one, one), 0)
        self.assertEqual(variation.apart(one, other), 50)

    def test_the_floor_falls_with_the_root_of_the_number(self) -> None:
        def of(number: int) -> variation.Shares:
            return variation.Shares({("table", "a"): 0.5, ("index", "b"): 0.5}, number, number)

        # Two names: 50 x 2 x sqrt(2 / pi x 0.25 x 2 / 100).
        self.assertAlmostEqual(variation.floor(of(100), of(100)), 5.6419, 4)
        self.assertAlmostEqual(variation.floor(of(10000), of(10000)), 0.56419, 5)


class Evidence(unittest.TestCase):
    def setUp(self) -> None:
        try:
            evidence.median([1])
        except evidence.Unavailable as error:
            self.skipTest(str(error))

    def test_medians_and_shares(self) -> None:
        self.assertEqual(evidence.median([6, 1, 5, 2, 4, 3]), (3.5, (1, 6)))
        self.assertEqual(evidence.median([2, 1]), (1.5, None))
        low, high = evidence.share_interval(5, 14) or (0, 0)
        self.assertAlmostEqual(low, 0.16344, 4)
        self.assertAlmostEqual(high, 0.61234, 4)
        self.assertIsNone(evidence.share_interval(0, 0))

    def test_a_block_is_an_order_and_its_mirror(self) -> None:
        chance = random.Random(1)
        first = set()
        for _ in range(40):
            order = figure.interleaved(["a", "b", "c"], chance)
            self.assertEqual(order[:3], order[:2:-1])
            self.assertEqual(sorted(order), list("aabbcc"))
            first.add(order[0])
        self.assertEqual(first, set("abc"))
        self.assertEqual(figure.interleaved(["a"], chance), ["a", "a"])

    def test_a_trial_decides(self) -> None:
        metric = {"name": "ms", "direction": "less", "minimum_effect": 0.02}
        trial = evidence.Trial([metric], seed=3)
        for contestant in trial:
            trial.observe(contestant, [(10.0, 9.0)[contestant]])
        self.assertEqual(trial.verdict(), "better")
        self.assertEqual(trial.standings()[0]["metrics"][0]["n"], 7)
        with self.assertRaises(ValueError):
            evidence.Trial([])

    def test_a_figure_is_a_line_of_json(self) -> None:
        one = figure.Figure.of_blocks("ratio", [1.1, 1.2, 1.3, 1.2, 1.1, 1.2], "x", "a ratio", figure.Bar(1.15))
        line = json.loads(figure.as_lines("plan", [one], {"processor": "a processor"}, False))
        self.assertEqual((line["part"], line["value"], line["verdict"], line["n"]), ("plan", 1.2, "short", 6))
        self.assertEqual(line["interval_95"], {"low": 1.1, "high": 1.3})
        self.assertNotIn("blocks", line)


if __name__ == "__main__":
    unittest.main()
