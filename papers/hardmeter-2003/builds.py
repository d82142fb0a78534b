"""PostgreSQL from Debian's source package, fetched by apt, as it is and with the spin lock of the paper.

    FOLDER/stock      the programs, -O2 -g, without a patch
    FOLDER/original   LWLocks behind a spin lock that is tested and set in each round, as in 7.3
    FOLDER/improved   the same with the paper's inner loop, which only reads
    FOLDER/source     the source of stock, FOLDER/patched that of the other two: debug information names them

Nothing is installed. apt has a configuration, package lists and a state of its own below FOLDER.
"""

import filecmp
import os
import pathlib
import re
import shutil

from steps import Failure, run, say

HERE = pathlib.Path(__file__).resolve().parent
MAJOR = 15
SUITE = "bookworm"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
LISTS = (
    f"deb-src [signed-by={KEYS}] http://deb.debian.org/debian {SUITE} main\n"
    f"deb-src [signed-by={KEYS}] http://deb.debian.org/debian-security {SUITE}-security main\n"
)
VARIANTS = ("stock", "original", "improved")
TOOLS = {"apt-get": "apt", "dpkg-source": "dpkg-dev", "gcc": "gcc", "make": "make", "perl": "perl", "patch": "patch"}


def prepare(folder: pathlib.Path) -> None:
    """Makes the folder; the server's account has to enter it.

    Raises Failure if it cannot be made, or belongs to another account, whose files must not be run.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"cannot make {folder}: {error.strerror}", "name another folder with --folder") from error
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise Failure(f"{folder} belongs to another account", "name a folder of your own with --folder")


def build(folder: pathlib.Path, jobs: int) -> dict[str, pathlib.Path]:
    """Returns the folder with the programs of each variant; builds what is not there.

    Raises Failure if a tool is missing, or a download or a step of the build fails.
    """
    programs = {variant: folder / variant / "bin" for variant in VARIANTS}
    if all((place / "postgres").exists() for place in programs.values()):
        return programs
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise Failure(f"building PostgreSQL needs {', '.join(missing)}", f"apt-get install {' '.join(missing)}")
    prepare(folder)
    source = folder / "source"
    if not (folder / "stock").exists():
        fetch(folder, source)
        compile_stock(folder, source, jobs)
    compile_patched(folder, source, jobs)
    return programs


def fetch(folder: pathlib.Path, source: pathlib.Path) -> None:
    """Unpacks the newest source package that the archive has."""
    say(f"fetching the source package postgresql-{MAJOR} of Debian's {SUITE}")
    apt = folder / "apt"
    shutil.rmtree(apt, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "unpacked"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(LISTS)
    options = {
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": apt,
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Retries": "3",
    }
    private = ["-q"] + [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", *private, "update"])
    listed = run(["apt-cache", *private, "showsrc", f"postgresql-{MAJOR}"])
    versions = sorted(set(re.findall(r"^Version: (\S+)$", listed, re.M)), key=parts_of, reverse=True)
    unpacked = apt / "unpacked"
    error = Failure(f"{SUITE} lists no source package postgresql-{MAJOR}", "check the network")
    for version in versions:  # an archive may list a version whose files it no longer has
        try:
            run(["apt-get", *private, "source", "--only-source", f"postgresql-{MAJOR}={version}"], folder=unpacked)
            break
        except Failure as failed:
            error = Failure(str(failed), "check the network, and that deb.debian.org is reached")
    else:
        raise error
    shutil.rmtree(source, ignore_errors=True)
    next(path for path in unpacked.iterdir() if path.is_dir()).rename(source)
    shutil.rmtree(apt)


def parts_of(version: str) -> list[int]:
    """The numbers in a version, to sort by."""
    return [int(part) for part in re.findall(r"\d+", version)]


def make(source: pathlib.Path, *words: object) -> None:
    """Runs make, without the flags and job slots of a make that called this program."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    run(["make", "--silent", *words], folder=source, environment=environment)


def compile_stock(folder: pathlib.Path, source: pathlib.Path, jobs: int) -> None:
    say("compiling PostgreSQL, some minutes")
    flags = dict(os.environ, CFLAGS="-O2 -g")
    target = folder / "stock"
    # Debian's source puts modules of the server into /usr/lib/postgresql, unless the folder of libraries names PostgreSQL.
    folders = [f"--prefix={target}", f"--libdir={target}/lib/postgresql"]
    run(["./configure", *folders, "--without-readline", "--without-zlib", "--without-icu"], source, flags)
    make(source, f"-j{jobs}", "all")
    stage = folder / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    make(source, f"DESTDIR={stage}", "install")
    (stage / target.relative_to("/")).rename(target)  # only now is it there, and complete
    shutil.rmtree(stage)


def compile_patched(folder: pathlib.Path, source: pathlib.Path, jobs: int) -> None:
    say("compiling it with the paper's spin lock, without and with the inner loop")
    patched = folder / "patched"
    shutil.rmtree(patched, ignore_errors=True)
    shutil.copytree(source, patched, symlinks=True)
    run(["patch", "-p1", "--batch", "-i", HERE / "spinlock.patch"], folder=patched)
    locks = patched / "src/backend/storage/lmgr"
    for variant, option in (("original", []), ("improved", ["COPT=-DSPIN_READ_LOOP"])):
        # The new field of a lock fills padding, so that the other files' objects stay valid. PostgreSQL's makefiles
        # take a missing object for a current one (.SECONDARY), unless it is named.
        for old in (locks / "lwlock.o", locks / "s_lock.o", patched / "src/backend/postgres"):
            old.unlink(missing_ok=True)
        make(locks, *option, "lwlock.o", "s_lock.o")
        make(patched / "src/backend", f"-j{jobs}", "postgres")
        target = folder / variant
        stage = folder / "stage"
        for old in (stage, target):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(folder / "stock", stage, symlinks=True)
        shutil.copy2(patched / "src/backend/postgres", stage / "bin/postgres")
        stage.rename(target)
    if filecmp.cmp(folder / "original/bin/postgres", folder / "improved/bin/postgres", shallow=False):
        shutil.rmtree(folder / "improved")
        raise Failure("the programs with and without the inner loop are the same", f"remove {folder} and try again")
    for tree in (source, patched):
        for path in [*tree.rglob("*.o"), *tree.rglob("*.a")]:
            path.unlink()
