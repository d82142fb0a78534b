"""scripts/lint-language: it finds words in Markdown, messages, help and comments, and ignores code."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "lint-language"


class LintLanguage(unittest.TestCase):
    def lint(self, files: dict[str, str]) -> tuple[int, str]:
        """Exit status and output in a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            subprocess.run(["git", "init", "-q", folder], check=True)
            command = [str(SCRIPT), "--root", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def finds(self, path: str, text: str, expected: str) -> None:
        """One finding with this beginning."""
        status, output = self.lint({path: text})
        self.assertEqual(status, 1, output)
        self.assertTrue(output.startswith(expected), output)
        self.assertEqual(output.count("\n"), 1, output)

    def passes(self, path: str, text: str) -> None:
        """No finding."""
        self.assertEqual(self.lint({path: text}), (0, ""))

    @unittest.skipUnless((SCRIPT.parents[1] / ".git").exists(), "this tree is not a clone: git knows no files of it")
    def test_committed_tree_passes(self) -> None:
        done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_markdown(self) -> None:
        self.finds("docs/a.md", "# A\n\nThe losses are told.\n", 'docs/a.md:3: "told": write reported')
        self.passes("docs/a.md", "The losses are reported.\n")

    def test_code_in_markdown_is_left_alone(self) -> None:
        self.passes("docs/a.md", "```\nnobody\n```\nthe account `nobody`\n")

    def test_whole_words_only(self) -> None:
        self.passes("a.md", "two rooms-of-one, untold, mendacious\n")

    def test_messages_of_rust_and_c(self) -> None:
        rust = '#[error("somebody else has {path}")]\nIo,\n'
        self.finds("plan/src/a.rs", rust, 'plan/src/a.rs:1: "somebody"')
        self.finds("plan/src/a.c", 'f("Mend the disk");\n', 'plan/src/a.c:1: "Mend": write fixes')

    def test_comments(self) -> None:
        self.finds("ground/statement/src/a.rs", "f(); // as nobody knows\n", 'ground/statement/src/a.rs:1: "nobody"')
        self.finds("evidence/tests/a.rs", "/// What is looked at.\n", 'evidence/tests/a.rs:1: "looked at": write examined')
        self.finds("plan/test/a.c", "/* One,\n * aloud. */\nint two;\n", 'plan/test/a.c:2: "aloud": write with a message')
        self.finds("bench/a.py", '"""It tells.\n"""\n', 'bench/a.py:1: "tells"')
        self.finds("bench/a.py", "f(1)  # told\n", 'bench/a.py:1: "told"')

    def test_comments_of_sql_and_shell(self) -> None:
        self.finds("plan/a.sql", "-- Who is told?\nSELECT 'told';\n", 'plan/a.sql:1: "told"')
        self.finds("scripts/a.sh", "# For whoever runs it.\necho told\n", 'scripts/a.sh:1: "whoever"')
        self.finds("scripts/a", "#!/bin/sh\n# For whoever runs it.\n", 'scripts/a:2: "whoever"')
        self.passes("LICENSE", "# told\n")

    def test_code_beside_comments_is_left_alone(self) -> None:
        self.passes("evidence/tests/a.rs", 'f("https://nobody"); // the account `nobody`\n')
        self.passes("plan/test/a.c", "/* One. */ int told;\n")
        self.passes("bench/a.py", 'f(\n    "a",\n    "told",\n)\n')

    def test_comments_of_exempt_folders_are_left_alone(self) -> None:
        self.passes("tests/record_faults.rs", "// As user nobody.\n")
        self.finds("persist/examples/a.c", "/* Read aloud. */\n", 'persist/examples/a.c:1: "aloud"')
        self.finds("plan/src/a.c", "/* Read aloud. */\n", 'plan/src/a.c:1: "aloud"')

    def test_placeholders_and_tests_are_left_alone(self) -> None:
        self.passes("plan/src/a.rs", 'f("{told} checks");\n')
        self.passes("plan/src/a.rs", '#[cfg(test)]\nmod tests {\n  fn f() { g("nobody"); }\n}\n')
        self.passes("plan/tests/a.rs", 'f("nobody");\n')

    def test_help_of_options(self) -> None:
        text = "/// End after so many seconds.\n"
        self.finds("cli/src/commands/a.rs", text, 'cli/src/commands/a.rs:1: "so many"')

    def test_exemptions_are_of_a_path_and_a_text(self) -> None:
        self.passes("ground/servers/src/a.rs", 'f("nobody");\n')
        self.finds("ground/samples/src/a.rs", 'f("nobody");\n', 'ground/samples/src/a.rs:1: "nobody"')


if __name__ == "__main__":
    unittest.main()
