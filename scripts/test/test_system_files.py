"""The account, the folder and the service of `hardmeter split analyze`, checked with systemd's own tools."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SYSTEM = Path(__file__).resolve().parents[2] / "place/system"
# On systemd's scale from 0 (safe) to 10 (unsafe), in tenths.
MOST_EXPOSED = 15


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """The output of a program, and its status."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def needs(program: str) -> None:
    """Skips the test where a program is missing."""
    if shutil.which(program) is None:
        raise unittest.SkipTest(f"there is no {program}")


class SystemFiles(unittest.TestCase):
    """Each file agrees with SECURITY.md."""

    def test_the_account_and_its_group_are_made(self) -> None:
        needs("systemd-sysusers")
        with tempfile.TemporaryDirectory() as root:
            Path(root, "etc").mkdir()
            done = run("systemd-sysusers", f"--root={root}", "--inline", *self.lines("hardmeter.sysusers"))
            self.assertEqual(done.returncode, 0, done.stderr)
            for file in ("passwd", "group"):
                names = [line.split(":")[0] for line in Path(root, "etc", file).read_text().splitlines()]
                self.assertIn("hardmeter", names)

    def test_the_folder_is_for_the_group_alone(self) -> None:
        (line,) = self.lines("hardmeter.tmpfiles")
        kind, path, mode, owner, group = line.split()[:5]
        self.assertEqual((kind, path), ("d", "/run/hardmeter-split"))
        self.assertEqual((mode, owner, group), ("2770", "root", "hardmeter"))

    def test_the_service_is_not_exposed(self) -> None:
        needs("systemd-analyze")
        done = run(
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={MOST_EXPOSED}",
            str(SYSTEM / "hardmeter-split.service"),
        )
        if "Unknown" in done.stderr or "unrecognized option" in done.stderr:
            raise unittest.SkipTest("this systemd-analyze reads no files")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_no_file_speaks_of_a_folder_for_everybody(self) -> None:
        root = SYSTEM.parents[1]
        guides = [root / "SECURITY.md", *root.glob("docs/*.md"), *root.glob("place/**/*.md")]
        self.assertGreater(len(guides), 5)
        for guide in guides:
            self.assertNotIn("-m 0777", guide.read_text(), guide)

    @staticmethod
    def lines(name: str) -> list[str]:
        """A file's lines without comments."""
        text = (SYSTEM / name).read_text().splitlines()
        return [line for line in text if line and not line.startswith("#")]


if __name__ == "__main__":
    unittest.main()
