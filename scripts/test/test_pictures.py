"""scripts/pictures: the pictures in docs/pictures are current, and unreadable ones are refused."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS))

from picture.canvas import Drawing, Unreadable  # noqa: E402
from picture.drawings import all_drawings  # noqa: E402


def pictures(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(SCRIPTS / "pictures"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Pictures(unittest.TestCase):
    def test_committed_pictures_are_current(self) -> None:
        done = pictures("--check")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_check_names_a_picture_that_was_edited_by_hand(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(pictures("--root", root).returncode, 0)
            self.assertEqual(pictures("--root", root, "--check").returncode, 0)
            path = pathlib.Path(root, "docs/pictures/parts.svg")
            path.write_text(path.read_text().replace("measure", "gauge"))
            done = pictures("--root", root, "--check")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, "docs/pictures/parts.svg is out of date: run scripts/pictures\n")

    def test_pictures_are_xml_and_name_what_they_show(self) -> None:
        parts = ("measure", "place", "plan", "persist", "prove")
        shown = {"parts": parts, "run-time": parts, "first-hour": ("record", "objects", "queries", "why", "tune try")}
        for name, drawing in all_drawings():
            root = xml.etree.ElementTree.fromstring(drawing.svg())
            words = {element.text for element in root.iter() if element.tag.endswith("}text")}
            for word in shown[name]:
                self.assertIn(word, words, name)

    def test_documentation_shows_each_picture(self) -> None:
        pages = {"parts": "ARCHITECTURE.md", "run-time": "ARCHITECTURE.md", "first-hour": "docs/measure.md"}
        for name, _ in all_drawings():
            text = (SCRIPTS.parent / pages[name]).read_text(encoding="utf-8")
            self.assertIn(f"pictures/{name}.svg)", text)


class Unfit(unittest.TestCase):
    def setUp(self) -> None:
        self.drawing = Drawing(400, 200, "test")
        self.drawing.box(10, 10, 100, 50, "part", "first")

    def refuses(self, *arguments: object) -> str:
        with self.assertRaises(Unreadable) as caught:
            self.drawing.box(*arguments)  # type: ignore[arg-type]
        return str(caught.exception)

    def test_overlap(self) -> None:
        self.assertIn("overlaps first", self.refuses(100, 40, 50, 50, "part", "b"))
        self.drawing.box(120, 10, 50, 50, "part", "b")

    def test_text_wider_than_its_box(self) -> None:
        self.assertIn("its text needs", self.refuses(200, 10, 60, 50, "part", "a title of many words"))

    def test_more_lines_than_fit(self) -> None:
        self.assertIn("3 lines need", self.refuses(200, 10, 60, 50, "part", "b", "1", "2", "3"))

    def test_outside(self) -> None:
        self.assertIn("leaves the picture", self.refuses(350, 10, 60, 50, "part", "b"))


if __name__ == "__main__":
    unittest.main()
