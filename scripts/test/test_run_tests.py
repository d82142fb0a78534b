"""scripts/run-tests: its parsing of logs, and that one part's failure does not hide others."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
from typing import Any

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "run-tests"


def load() -> Any:
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("run_tests", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["run_tests"] = module
    loader.exec_module(module)
    return module


MAKEFILE = """\
test-first: #: fails
\t@echo '[  FAILED  ] tests: 1 test(s), listed below:'; exit 3
test-second: #: passes
\t@echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'
test-named: #+ runs only when named
\t@true
test-left: #+ waits for the part right
	@touch left; for i in $$(seq 600); do [ -e right ] && exit 0; sleep 0.1; done; exit 1
test-right: #+ waits for the part left
	@touch right; for i in $$(seq 600); do [ -e left ] && exit 0; sleep 0.1; done; exit 1
built:
	@touch built
test-needs: built #+ needs what is built
	@true
test-signals: #+ ends by SIGINT, unless it is ignored
\t@sh -c 'kill -INT $$$$; echo survived' || true
"""


class Logs(unittest.TestCase):
    def tally(self, text: str) -> Any:
        return load().read_log(text.splitlines())

    def test_libtest_names_the_skipped_test_and_its_reason(self) -> None:
        tally = self.tally(
            "test one ... ok\n"
            "test two ... ignored, needs a PMU\n"
            "test three ... ok\n"
            "successes:\n"
            "---- three stdout ----\n"
            "skipped: no perf\n"
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
        )
        self.assertEqual((tally.passed, tally.failed), (1, 0))
        self.assertEqual(tally.skipped, ["two: needs a PMU", "three: no perf"])

    def test_ctest_counts_a_skipped_test_once(self) -> None:
        tally = self.tally(
            "12/26 Test #12: probe_sets_test ..................***Skipped   0.01 sec\n"
            "96% tests passed, 1 tests failed out of 26\n"
        )
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (24, 1, ["probe_sets_test"]))

    def test_cmocka_and_pg_regress(self) -> None:
        tally = self.tally(
            "[  PASSED  ] 6 test(s).\n[  FAILED  ] tests: 2 test(s), listed below:\n"
            "ok 1         - agg    120 ms\nnot ok 2     - join    8 ms\ntest scan                         ... ok           31 ms\n"
        )
        self.assertEqual((tally.passed, tally.failed), (8, 3))


    def test_unittest_counts_failures_errors_and_skips(self) -> None:
        tally = self.tally(
            "test_one (test_a.A.test_one) ... ok\n"
            "test_two (test_a.A.test_two) ... skipped 'no ruff'\n"
            "Ran 9 tests in 1.2s\n\n"
            "FAILED (failures=1, errors=2, skipped=1)\n"
            "Ran 1 test in 0.1s\n\nOK\n"
        )
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (6, 3, ["test_two: no ruff"]))


class Runs(unittest.TestCase):
    def run_parts(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "Makefile").write_text(MAKEFILE)
            return subprocess.run(
                [SCRIPT, "--directory", folder, *arguments],
                capture_output=True,
                text=True,
                check=False,
                env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
            )

    def test_a_failure_in_the_first_part_leaves_the_others_to_run(self) -> None:
        done = self.run_parts()
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = done.stdout.splitlines()
        self.assertTrue(any(line.startswith("first ") and "FAILED" in line for line in lines), done.stdout)
        self.assertTrue(any(line.split()[:4] == ["second", "2", "0", "0"] for line in lines), done.stdout)
        self.assertTrue(lines[-1].startswith("FAILED: first: 2 tests passed"), done.stdout)
        self.assertNotIn("named", done.stdout)

    def test_two_parts_run_at_a_time(self) -> None:
        done = self.run_parts("--at-once", "2", "left", "right")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_parts_need_is_built_before(self) -> None:
        lines = self.run_parts("needs").stdout.splitlines()
        self.assertEqual(lines[0], "==> building what the tests need")
        self.assertEqual(self.run_parts("named").stdout.splitlines()[0], "==> testing named: runs only when named")

    def test_named_parts_and_wrong_names(self) -> None:
        self.assertEqual(self.run_parts("named", "second").returncode, 0)
        wrong = self.run_parts("third")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("there is no part third; there are: first, second, named, left, right, needs, signals", wrong.stderr)

    def test_ignored_signals_are_restored(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "Makefile").write_text(MAKEFILE)
            subprocess.run(
                [SCRIPT, "--directory", folder, "signals"],
                capture_output=True,
                check=False,
                env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None,
            )
            log = pathlib.Path(folder, "build/test-logs/signals.log").read_text()
        self.assertNotIn("survived", log)


if __name__ == "__main__":
    unittest.main()
