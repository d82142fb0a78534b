"""scripts/lint-arrows: each rule fires on a planted violation, and on nothing else."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "lint-arrows"

HEADING = "# Map\n\n## Exceptions to the arrows\n\n| exception | why |\n|---|---|\n"


def crate(name: str, *needs: str) -> str:
    """A manifest; `needs` are paths of other crates, whose names are their folders'."""
    lines = [f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]']
    lines += [f'{pathlib.PurePosixPath(need).name} = {{ path = "{need}" }}' for need in needs]
    return "\n".join(lines) + "\n"


SIDEWAYS = {"plan/src/a.c": '#include "store.h"\n', "persist/include/store.h": ""}


class LintArrows(unittest.TestCase):
    """Each test creates a small tree and reads the script's findings."""

    def lint(self, files: dict[str, str], *arguments: str) -> tuple[int, str]:
        """Exit status and output of the script in a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            subprocess.run(["git", "init", "-q", folder], check=True)
            command = [str(SCRIPT), "--root", folder, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def finds(self, files: dict[str, str], *expected: str) -> None:
        """The script fails, and prints one finding that contains all of this."""
        status, output = self.lint(files)
        self.assertEqual(status, 1, output)
        for text in expected:
            self.assertIn(text, output)

    def passes(self, files: dict[str, str]) -> None:
        """The script has no findings."""
        self.assertEqual(self.lint(files), (0, ""))

    # Arrows between parts.

    def crates(self, user: str, used: str) -> dict[str, str]:
        """Two crates; the first depends on the second."""
        up = "../" * len(pathlib.PurePosixPath(user).parts)
        name = pathlib.PurePosixPath(used).name
        return {
            "Cargo.toml": f'[workspace]\nresolver = "2"\nmembers = ["{user}", "{used}"]\n',
            f"{user}/Cargo.toml": crate(pathlib.PurePosixPath(user).name, up + used),
            f"{user}/src/lib.rs": "",
            f"{used}/Cargo.toml": crate(name),
            f"{used}/src/lib.rs": "",
        }

    def test_crate_upward(self) -> None:
        self.finds(self.crates("ground/samples", "evidence"), "ground/samples/Cargo.toml", "upward")
        self.finds(self.crates("prove/tpcc", "advise/tune"), "upward")

    def test_crate_sideways(self) -> None:
        self.finds(self.crates("place/analyzer", "prove/session"), "sideways: parts see only")

    def test_crate_downward(self) -> None:
        for user, used in [
            ("cli/hm", "place/analyzer"),
            ("advise/tune", "measure/answers"),
            ("place/analyzer", "evidence/one"),
            ("evidence/one", "ground/samples"),
            ("prove/tpcc", "prove/session"),
        ]:
            self.passes(self.crates(user, used))

    def test_dev_dependency_draws_no_arrow(self) -> None:
        files = self.crates("place/analyzer", "prove/session")
        manifest = files["place/analyzer/Cargo.toml"]
        files["place/analyzer/Cargo.toml"] = manifest.replace(
            "[dependencies]", "[dev-dependencies]"
        )
        self.passes(files)

    def test_inside_measure(self) -> None:
        self.finds(self.crates("measure/answers", "measure/views"), "upward: html, tui > views > answers")
        self.finds(self.crates("measure/symbols", "measure/answers"), "upward: html, tui > views > answers")
        self.finds(self.crates("measure/record", "measure/objects"), "record, symbols and objects")
        self.finds(self.crates("measure/record", "measure/simulate"), "measure/simulate sees only")
        self.finds(self.crates("measure/simulate", "measure/record"), "measure/simulate sees only")
        self.passes(self.crates("measure/views", "measure/symbols"))
        self.passes(self.crates("measure/simulate", "ground/statement"))

    def test_include_sideways(self) -> None:
        files = {"plan/src/a.c": '#include "store.h"\n', "persist/include/store.h": ""}
        self.finds(files, "plan/src/a -> persist/include/store (store.h)", "sideways")

    def test_tests_and_benchmarks_see_all(self) -> None:
        header = {"persist/include/store.h": ""}
        for user in ("tests/a.c", "plan/test/a.c", "bench/plan/a.c"):
            self.passes({user: '#include "store.h"\n', **header})

    def test_product_sees_no_tests(self) -> None:
        self.finds({"plan/src/a.c": '#include "../test/t.h"\n', "plan/test/t.h": ""}, "no tests")
        self.finds({"plan/src/a.c": '#include "bench/t.h"\n', "bench/t.h": ""}, "uses bench/")

    def test_cmake_folder_and_target(self) -> None:
        files = {
            "prove/a/CMakeLists.txt": "add_subdirectory(${CMAKE_CURRENT_SOURCE_DIR}/../../persist p)\n",
            "persist/CMakeLists.txt": "add_library(p3l store.c)\n",
        }
        self.finds(files, "prove/a/CMakeLists.txt -> persist (../../persist)", "sideways")
        files["prove/a/CMakeLists.txt"] = "target_link_libraries(program PRIVATE p3l)\n"
        self.finds(files, "prove/a/CMakeLists.txt -> persist/CMakeLists.txt (p3l)", "sideways")
        files["prove/a/CMakeLists.txt"] = "# beside ../../persist, p3l\nadd_library(other a.c)\n"
        self.passes(files)

    def test_make_and_rust_includes(self) -> None:
        used = {"place/sql/CMakeLists.txt": ""}
        make = {"plan/Makefile": "PG_CPPFLAGS = -I$(here)/../place/sql\n"}
        self.finds({**make, **used}, "plan/Makefile -> place/sql", "sideways")
        rust = {
            "plan/src/a.rs": 'const A: &str = include_str!("../../place/sql/CMakeLists.txt");\n'
        }
        self.finds({**rust, **used}, "plan/src/a.rs -> place/sql/CMakeLists.txt", "sideways")

    def test_python_import(self) -> None:
        files = {"place/analyzer/a.py": "import figure\n", "bench/common/figure.py": ""}
        self.finds(files, "place/analyzer/a.py -> bench/common/figure.py", "uses bench/")
        self.passes({"papers/one/a.py": "import figure\n", "bench/common/figure.py": ""})

    # Circles.

    def test_circle_of_c_includes(self) -> None:
        files = {f"plan/src/f{n}.h": f'#include "f{(n + 1) % 4}.h"\n' for n in range(4)}
        self.finds(files, "circle of 4 files", "plan/src/f3 -> plan/src/f0: f0.h", "at most 3")
        del files["plan/src/f3.h"]
        files["plan/src/f2.h"] = '#include "f0.h"\n'
        self.passes(files)

    def test_circle_of_c_calls_behind_one_header(self) -> None:
        files = {"plan/src/all.h": "".join(f"void work_{n}(void);\n" for n in range(4))}
        for n in range(4):
            body = f'#include "all.h"\n\nvoid work_{n}(void) {{\n  work_{(n + 1) % 4}();\n}}\n'
            files[f"plan/src/f{n}.c"] = body
        self.finds(files, "circle of 4 files", "plan/src/f0 -> plan/src/f1: work_1")
        # A static function of that name is another function; comments and members use nothing.
        files["plan/src/f0.c"] = (
            "static void work_1(void) {}\nvoid work_0(void) {\n  work_1();\n}\n"
        )
        self.passes(files)
        files["plan/src/f0.c"] = "// work_1()\nvoid work_0(struct s *s) {\n  s->work_1();\n}\n"
        self.passes(files)

    def test_source_and_header_are_one_file(self) -> None:
        files = {f"plan/src/f{n}.h": "" for n in range(4)}
        for n in range(4):
            files[f"plan/src/f{n}.c"] = f'#include "f{(n + 1) % 4}.h"\n'
        self.finds(files, "circle of 4 files")

    def test_public_header_declares_what_its_inline_functions_call(self) -> None:
        inline = "static inline void enter(void) {\n  work_0();\n}\n"
        files = {"persist/include/p.h": "void work_0(void);\n" + inline}
        for n in range(4):
            call = f"work_{n + 1}();" if n < 3 else ""
            files[f"persist/src/f{n}.c"] = f"void work_{n}(void) {{\n  {call}\n}}\n"
        files["persist/src/f3.c"] += '#include "p.h"\n'
        self.passes(files)
        # A header that is not public, and one that leaves the declaration to another, are users.
        private = {**files, "persist/src/p.h": files["persist/include/p.h"]}
        del private["persist/include/p.h"]
        self.finds(private, "circle of 5 files", "persist/src/p -> persist/src/f0: work_0")
        files["persist/include/p.h"] = inline
        self.finds(files, "circle of 5 files", "persist/include/p -> persist/src/f0: work_0")

    def test_host_implements_what_a_header_below_asks_for(self) -> None:
        files = {"measure/simulate/sim/host.h": "void host_wait(void);\n"}
        wait = '#include "host.h"\n\nvoid turn_0(void) {\n  host_wait();\n}\n'
        files["measure/simulate/sim/core.c"] = wait
        host = "void host_wait(void) {\n  turn_3();\n}\n"
        files["measure/simulate/tool/host.c"] = '#include "../sim/host.h"\n\n' + host
        for n in (1, 2, 3):
            body = f"void turn_{n}(void) {{\n  turn_{n - 1}();\n}}\n"
            files[f"measure/simulate/tool/turn{n}.c"] = body
        self.passes(files)
        # A function that no header of the user's folder declares is used, not requested.
        files["measure/simulate/tool/host.h"] = files.pop("measure/simulate/sim/host.h")
        self.finds(files, "circle of 5 files", "simulate/tool/host: host.h, host_wait")

    def test_headers_of_two_languages_are_two_files(self) -> None:
        files = {"persist/include/p.h": "void work_0(void);\n"}
        files["persist/include/p.hpp"] = "inline void enter() {\n  work_0();\n}\n"
        for n in range(4):
            call = f"work_{n + 1}();" if n < 3 else ""
            files[f"persist/src/f{n}.c"] = f"void work_{n}(void) {{\n  {call}\n}}\n"
        files["persist/src/f3.c"] += '#include "p.h"\n'
        self.passes(files)
        files["persist/src/f3.c"] += '#include "p.hpp"\n'
        self.finds(files, "circle of 5 files", "persist/include/p.hpp -> persist/src/f0: work_0")

    def rust(self, bodies: dict[str, str]) -> dict[str, str]:
        """A crate of modules."""
        files = {"Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["prove/a"]\n'}
        files["prove/a/Cargo.toml"] = crate("a")
        files["prove/a/src/lib.rs"] = "".join(f"mod {name};\n" for name in bodies)
        files.update({f"prove/a/src/{name}.rs": body for name, body in bodies.items()})
        return files

    def test_circle_of_rust_modules(self) -> None:
        bodies = {
            "a": "use crate::b::B;\npub struct A(B);\n",
            "b": "pub struct B(super::c::C);\n",
            "c": "use crate::{d::{self, D}};\npub struct C(D);\n",
            "d": "use super::a;\npub fn d() -> a::A { loop {} }\npub struct D;\n",
        }
        self.finds(self.rust(bodies), "circle of 4 files", "src/d.rs -> prove/a/src/a.rs: A")
        in_tests = {
            **bodies,
            "d": "pub struct D;\n#[cfg(test)]\nmod tests {\n  use crate::a::A;\n}\n",
        }
        self.passes(self.rust(in_tests))
        in_comment = {**bodies, "d": "// crate::a::A\npub struct D(&'static str);\n"}
        self.passes(self.rust(in_comment))

    def test_rust_reexport_is_followed(self) -> None:
        bodies = {f"m{n}": f"use crate::T{(n + 1) % 4};\npub struct T{n};\n" for n in range(4)}
        files = self.rust(bodies)
        files["prove/a/src/lib.rs"] += "".join(f"pub use m{n}::T{n};\n" for n in range(4))
        self.finds(files, "circle of 4 files", "m0.rs -> prove/a/src/m1.rs: T1")
        # Re-exporting names alone creates no arrow.
        bodies = {f"m{n}": f"pub struct T{n};\n" for n in range(4)}
        bodies["m0"] = "use crate::T1;\npub struct T0(T1);\n"
        files = self.rust(bodies)
        files["prove/a/src/lib.rs"] += "".join(f"pub use m{n}::T{n};\n" for n in range(4))
        self.passes(files)

    def test_rust_module_declaration_uses_no_function_of_its_name(self) -> None:
        files = self.rust({"m": ""})
        files["prove/a/src/m.rs"] = "pub mod p;\npub mod q;\nmod r;\npub use r::r;\npub struct M(p::P);\n"
        files["prove/a/src/m/p.rs"] = "pub struct P(super::q::Q);\n"
        files["prove/a/src/m/q.rs"] = "pub struct Q;\npub fn q(_: super::M) {}\n"
        files["prove/a/src/m/r.rs"] = "pub fn r(_: super::M) {}\n"
        self.passes(files)
        files["prove/a/src/m.rs"] += "pub fn m() {\n    r(todo!());\n}\n"
        self.finds(files, "circle of 4 files", "src/m.rs -> prove/a/src/m/r.rs: r")

    def test_circle_of_python(self) -> None:
        files = {f"bench/a/f{n}.py": f"import f{(n + 1) % 4}\n" for n in range(4)}
        self.finds(files, "circle of 4 files", "bench/a/f3.py -> bench/a/f0.py")

    # Exceptions.

    def test_arrow_exception(self) -> None:
        page = HEADING + "| `plan/src -> persist` | benchmark |\n"
        self.passes({**SIDEWAYS, "ARCHITECTURE.md": page})
        self.finds({**SIDEWAYS, "ARCHITECTURE.md": page.replace("plan/", "place/")}, "sideways")
        self.finds(
            {"plan/src/a.c": "", "ARCHITECTURE.md": page}, "plan/src -> persist", "take it out"
        )

    def test_circle_exception(self) -> None:
        files = {f"plan/src/f{n}.h": f'#include "f{(n + 1) % 5}.h"\n' for n in range(5)}
        page = HEADING + "| `circle: plan/src/f1, 5 files` | recursion |\n"
        self.passes({**files, "ARCHITECTURE.md": page})
        smaller = {**files, "ARCHITECTURE.md": page.replace("5 files", "4 files")}
        self.finds(smaller, "circle of 5 files", "its exception allows 4")
        self.finds({"plan/src/f1.h": "", "ARCHITECTURE.md": page}, "no longer occurs")

    def test_faulty_exceptions(self) -> None:
        self.finds({"ARCHITECTURE.md": HEADING + "| `plan` | because |\n"}, "is neither")
        page = HEADING + "| `plan/src -> persist` | |\n"
        self.finds({**SIDEWAYS, "ARCHITECTURE.md": page}, "has no reason")

    def test_lists(self) -> None:
        status, output = self.lint(SIDEWAYS, "--of", "plan")
        self.assertEqual((status, output), (0, "plan/src/a -> persist/include/store: store.h\n"))
        pair = {"plan/src/a.h": '#include "b.h"\n', "plan/src/b.h": '#include "a.h"\n'}
        self.assertIn("circle of 2 files:", self.lint(pair, "--circles")[1])


if __name__ == "__main__":
    unittest.main()
