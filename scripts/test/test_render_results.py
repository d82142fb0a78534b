"""Results become tables of a page, and a page that is not current is found."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "render-results"
PAGE = "Before.\n<!-- results: plan -->\nold\n<!-- end of results -->\nAfter.\n"
LINE = {
    "part": "plan", "name": "Q1 | stock", "value": 0.4123, "unit": "x", "interval_95": {"low": 0.4, "high": 0.43},
    "n": 12, "bar": {"at_most": 0.45}, "verdict": "held", "decided": False, "quick": False,
    "processor": "a processor", "date": "2026-11-26",
}  # fmt: skip
BARE = {**LINE, "name": "new", "interval_95": None, "bar": None, "verdict": None, "decided": None, "value": 3}


class RenderResults(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.page = self.folder / "page.md"
        self.page.write_text(PAGE, encoding="utf-8")

    def run_it(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(PROGRAM), "--results", str(self.folder), *words, str(self.page)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_a_table_is_made_of_the_lines(self) -> None:
        self.folder.joinpath("plan.jsonl").write_text(f"{json.dumps(LINE)}\n{json.dumps(BARE)}\n", encoding="utf-8")
        self.assertEqual(self.run_it("--check").returncode, 1)
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(self.run_it("--check").returncode, 0)
        lines = self.page.read_text(encoding="utf-8").splitlines()
        self.assertEqual((lines[0], lines[-1], "old" in lines), ("Before.", "After.", False))
        self.assertIn("| Q1 \\| stock | 0.412 x | 0.400..0.430 | 12 | <= 0.450 | held, undecided |", lines)
        self.assertIn("Measured 2026-11-26 on a processor.", lines)
        self.assertIn("| new | 3 x | - | 12 | - | - |", lines)

    def test_results_that_are_missing_are_named(self) -> None:
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertIn("plan.jsonl", done.stderr)
        self.assertEqual(self.page.read_text(encoding="utf-8"), PAGE)


if __name__ == "__main__":
    unittest.main()
