"""Lua with its heap in a store (lua_store/): what that costs, and whether a killed script goes on where it was.

Lua is Debian's source package, unchanged, compiled with the plugin (orthogonal mode). Each script of orthogonal_lua runs
as one transaction, on a new store. A script that commits 3 times in each of its rounds is killed by SIGKILL at random
moments and started again, until it ends; its result must be that of plain Lua, and `p3l verify` must find nothing after
each kill. P3L_LUA_TESTS names the folder of Lua's own tests (lua-5.4.x-tests, or testes/ of its repository).
"""

import os
import random
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from figure import Bar, Figure, interleaved
from orthogonal import HERE, OPTIMISED, Workshop
from processes import Trouble, run, run_measured
from servers import REPOSITORY, Playground
from torture import P3L

HOST = HERE / "lua_store"
LIBRARIES = ["runtime/libp3l.a", "objects/libp3l_objects.a", "store/libp3l_store.a"]
# What is of Lua's core: it allocates by its macros, which lua_store.h gives types.
CORE = "lapi lcode lctype ldebug ldo ldump lfunc lgc llex lmem lobject lopcodes lparser lstate lstring ltable ltm lundump"
CORE_FILES = {*CORE.split(), "lvm", "lzio"}
OPTIONS = ["-DLUA_USE_POSIX", "-DLUA_COMPAT_5_3", "-Dluai_makeseed(L)=42"]
ROUNDS = "400"
SUITE = '_U = true; dofile("all.lua")'


def build(workshop: Workshop, tree: Path) -> Path:
    """The program lua_store: Lua's core and libraries, and the host."""
    workshop.say("building lua_store")
    folder = workshop.folder / "lua_store"
    folder.mkdir()
    include = [f"-I{tree / 'src'}", f"-I{HOST}", f"-I{REPOSITORY / 'persist/include'}"]
    commands, objects = [], []
    for source in [*sorted((tree / "src").glob("*.c")), *sorted(HOST.glob("*.c"))]:
        if source.parent != HOST and source.stem in ("lua", "luac"):
            continue
        made = folder / f"{source.parent.name}-{source.stem}.o"
        words: List[object] = ["--p3l=off" if source == HOST / "heap.c" else "--p3l=orthogonal"]
        if source.stem in CORE_FILES:
            words += ["-include", HOST / "lua_store.h"]
        commands.append([workshop.clang, *words, *OPTIMISED, *OPTIONS, "-fno-pie", *include, "-c", source, "-o", made])
        objects.append(made)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as compilers:
        list(compilers.map(run, commands))
    libraries = [REPOSITORY / "build/persist" / name for name in LIBRARIES]
    program = folder / "lua_store"
    run([workshop.clang, "--p3l=off", "-no-pie", *objects, *libraries, "-lisal", "-luring", "-lm", "-o", program])
    return program


def remove(store: Path) -> None:
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()


def costs(workshop: Workshop, plain: Path, program: Path, blocks: int) -> Figure:
    """CPU time of all scripts, each on a new store, to plain Lua's."""
    chance, ratios = random.Random(1), []
    store = workshop.folder / "cost.p3l"
    for block in range(blocks):
        workshop.say(f"Lua in a store: block {block + 1} of {blocks}")
        used = {"plain": 0.0, "store": 0.0}
        for script in sorted((HERE / "orthogonal_lua").glob("*.lua")):
            commands: Dict[str, list] = {"plain": [plain, script], "store": [program, "--main", store, script]}
            for build_name in interleaved(list(used), chance):
                remove(store)
                used[build_name] += run_measured(commands[build_name]).cpu_seconds
        ratios.append(used["store"] / used["plain"])
    what = "CPU time of five Lua scripts whose heap is in a store, committed at the end, over that of plain Lua"
    return Figure.of_blocks("Lua: heap in a store", ratios, "x", what)


def is_killed(command: Sequence[object], seconds: float) -> "subprocess.CompletedProcess[str]":
    """Runs a command and kills it after a while, unless it has ended."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def killed(workshop: Workshop, plain: Path, program: Path, kills: int) -> Figure:
    """Kills after which the store had a fault or the script another result."""
    chance, done, losses, finished = random.Random(1), 0, 0, 0
    script, store = HOST / "killed.lua", workshop.folder / "killed.p3l"
    expected = run([plain, script, ROUNDS])
    workshop.say(f"killing a Lua script {kills} times")
    while done < kills:
        every = ["--every", "1000"] if finished % 2 else []
        ended = is_killed([program, *every, store, script, ROUNDS], chance.uniform(0.005, 0.15))
        if ended.returncode == -signal.SIGKILL:
            done += 1
            if store.exists():
                verified = subprocess.run([str(P3L), "verify", str(store)], capture_output=True, text=True, check=False)
                losses += verified.returncode != 0 or "0 faults, 0 dangling" not in verified.stdout
            continue
        if ended.returncode != 0:
            raise Trouble(f"{program.name}: {ended.stderr.strip()}")
        finished += 1
        losses += ended.stdout != expected
        remove(store)
    what = f"kills after which a store had a fault or a script another result; {finished} scripts ended meanwhile"
    return Figure("Lua: losses by kills", losses, "", kills, what, Bar(0))


def suite(workshop: Workshop, program: Path, folder: Path) -> Figure:
    """Lua's own tests, by their portable set (_U), in one transaction."""
    workshop.say("Lua's own tests")
    begin, store = workshop.folder / "begin.lua", workshop.folder / "suite.p3l"
    begin.write_text(SUITE)
    command = [str(program), "--main", str(store), str(begin)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    passed = ended.returncode == 0 and "final OK !!!" in ended.stdout
    said = "final OK" if passed else ended.stderr.strip()[-200:]
    return Figure("Lua: its tests that fail", 0 if passed else 1, "", 1, f"Lua's test suite in a store: {said}", Bar(0))


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """No loss; Lua's own tests pass."""
    workshop = Workshop(playground, say)
    tree = workshop.unpack(workshop.fetch(), "lua5.4_*.orig.tar.*", "lua")
    sources = [path for path in sorted((tree / "src").glob("*.c")) if path.name != "luac.c"]
    plain = workshop.compile("plain", sources, OPTIONS, "lua")
    program = build(workshop, tree)
    figures = [costs(workshop, plain, program, 1 if quick else 15)]
    figures.append(killed(workshop, plain, program, 20 if quick else 1000))
    tests = os.environ.get("P3L_LUA_TESTS")
    if tests:
        figures.append(suite(workshop, program, Path(tests)))
    else:
        say("P3L_LUA_TESTS names no folder, and no figure is of Lua's own tests")
    return figures
