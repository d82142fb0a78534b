"""scripts/lint-links: it finds links, anchors and paths that lead nowhere."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "lint-links"


class LintLinks(unittest.TestCase):
    def lint(self, files: dict[str, str]) -> tuple[int, str]:
        """Exit status and output in a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {"ARCHITECTURE.md": "# A\n", **files}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            subprocess.run(["git", "init", "-q", folder], check=True)
            command = [str(SCRIPT), "--root", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    @unittest.skipUnless((SCRIPT.parents[1] / ".git").exists(), "this tree is not a clone: git knows no files of it")
    def test_committed_tree_passes(self) -> None:
        done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_files(self) -> None:
        self.assertEqual(self.lint({"docs/a.md": "[b](b.md) [c](../c.md)\n", "docs/b.md": "", "c.md": ""}), (0, ""))
        found = (1, "docs/a.md:3: b.md: there is no such file\n")
        self.assertEqual(self.lint({"docs/a.md": "# A\n\n[b](b.md)\n"}), found)

    def test_a_link_over_two_lines(self) -> None:
        found = (1, "docs/a.md:1: b.md: there is no such file\n")
        self.assertEqual(self.lint({"docs/a.md": "[two\nwords](b.md)\n"})[0], 1)
        self.assertEqual(self.lint({"docs/a.md": "[b](\nb.md)\n"}), found)

    def test_anchors(self) -> None:
        page = "# What is read, and how: `record`\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"
        good = "[1](b.md#what-is-read-and-how-record) [2](b.md#twice) [3](b.md#twice-1)\n"
        self.assertEqual(self.lint({"a.md": good, "b.md": page}), (0, ""))
        found = (1, "a.md:1: b.md#no-heading: the page has no such heading\n")
        self.assertEqual(self.lint({"a.md": "[1](b.md#no-heading)\n", "b.md": page}), found)

    def test_code_and_addresses_are_left_alone(self) -> None:
        self.assertEqual(self.lint({"a.md": "```\n[b](b.md)\n```\n[c](https://example.org/d.md)\n"}), (0, ""))

    def test_tables_of_architecture(self) -> None:
        table = "| to change | look in |\n|---|---|\n| x | `src/a.c`, `src/*_plan.c`, docs |\n"
        self.assertEqual(self.lint({"ARCHITECTURE.md": table, "src/a.c": "", "src/b_plan.c": ""}), (0, ""))
        found = (1, "ARCHITECTURE.md:3: src/*_plan.c: there is no such file\n")
        self.assertEqual(self.lint({"ARCHITECTURE.md": table, "src/a.c": ""}), found)

    def test_pages_that_sources_name(self) -> None:
        found = (1, "a.rs:2: docs/b.md: there is no such page\n")
        self.assertEqual(self.lint({"a.rs": "f();\n// see docs/b.md\n"}), found)
        self.assertEqual(self.lint({"a.rs": "// see docs/b.md\n", "docs/b.md": ""}), (0, ""))


if __name__ == "__main__":
    unittest.main()
