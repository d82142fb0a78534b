"""The licences of all crates in Cargo.lock are among those that deny.toml allows."""

import json
import re
import subprocess
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression of OR, AND and brackets can be met by the allowed licences alone."""
    words = re.findall(r"[()]|[A-Za-z0-9.+-]+(?: WITH [A-Za-z0-9.-]+)?", expression.replace("/", " OR "))
    python = {"OR": "or", "AND": "and", "(": "(", ")": ")"}
    return bool(eval(" ".join(python.get(word) or str(word in allowed) for word in words)))


class Dependencies(unittest.TestCase):
    """The checks of `cargo deny check licenses sources`, without cargo-deny."""

    def setUp(self) -> None:
        self.rules = tomllib.loads((ROOT / "deny.toml").read_text())

    def test_expressions_are_judged(self) -> None:
        allowed = {"MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"}
        self.assertTrue(is_allowed("MIT OR GPL-3.0", allowed))
        self.assertTrue(is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0", allowed))
        self.assertTrue(is_allowed("Apache-2.0 WITH LLVM-exception", allowed))
        self.assertFalse(is_allowed("MIT AND GPL-3.0", allowed))
        self.assertFalse(is_allowed("GPL-3.0/AGPL-3.0", allowed))

    def test_every_crate_has_an_allowed_licence_and_source(self) -> None:
        command = [ROOT / "scripts/cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode != 0:
            raise unittest.SkipTest(f"cargo has not all crates here: {done.stderr.strip()[-200:]}")
        packages = [package for package in json.loads(done.stdout)["packages"] if package["source"]]
        self.assertGreater(len(packages), 100)
        allowed = set(self.rules["licenses"]["allow"])
        registries = {f"registry+{url}" for url in self.rules["sources"]["allow-registry"]}
        for package in packages:
            self.assertTrue(
                is_allowed(package["license"] or "none", allowed),
                f"{package['name']}: {package['license']}",
            )
            self.assertIn(package["source"], registries, package["name"])


if __name__ == "__main__":
    unittest.main()
