# Run by gdb for scripts/postgres-layouts: prints the layout table of the compiled headers.
import os

import gdb

STRUCTURES = """BufferDesc LWLock PGPROC PROC_HDR PGShmemHeader ShmemIndexEnt PgBackendStatus PageHeaderData
HeapTupleHeaderData IndexTupleData BTPageOpaqueData BTMetaPageData FormData_pg_class FormData_pg_attribute
FormData_pg_database FormData_pg_index FormData_pg_namespace MemoryContextData CatCTup CatCList CatCache RelationData
PlanState Plan SlruSharedData LOCK PROCLOCK NamedLWLockTranche PortalData CachedPlanSource CachedPlan TupleTableSlot
EState ExprContext SnapshotData PgStat_ShmemControl PgStat_LocalState PgStat_HashKey PgStatShared_HashEntry
PgStatShared_Common PgStatShared_Database PgStat_StatDBEntry""".split()


def structure(name):
    for spelling in (name, "struct " + name):
        try:
            return gdb.lookup_type(spelling).strip_typedefs()
        except gdb.error:
            pass
    return None


def fields(kind, base=0):
    for field in kind.fields():
        inner = field.type.strip_typedefs()
        at = base + field.bitpos // 8
        if field.name is None or field.name == "":
            yield from fields(inner, at)
        else:
            yield field.name, at, max(inner.sizeof, 0)


def enumerators(name):
    return gdb.lookup_type(name).strip_typedefs().fields()


def table(name, kind):
    print("\n[structures.%s]\nsize = %d\nfields = [" % (name, kind.sizeof))
    for field in fields(kind):
        print('  ["%s", %d, %d],' % field)
    print("]")


def spelled(title, name):
    """For locks, the server's own spelling: WAL_INSERT is WALInsert."""
    if title != "tranches":
        return name
    special = {"WAL": "WAL", "DSA": "DSA", "PGSTATS": "PgStats", "SLRU": "SLRU", "DSM": "DSM", "FASTPATH": "FastPath",
               "TIDBITMAP": "TidBitmap", "SINVAL": "SInval", "COMMITTS": "CommitTs", "MULTIXACTOFFSET": "MultiXactOffset",
               "MULTIXACTMEMBER": "MultiXactMember", "REPLICATION": "Replication", "IO": "IO"}
    return "".join(special.get(word, word.capitalize()) for word in name.split("_"))


def quoted(texts):
    return "\n".join('  "%s",' % text for text in texts)


constants = {field.name[2:]: field.enumval for field in enumerators("enum HardmeterConstants")}
print("# Made by scripts/postgres-layouts; not edited by hand.")
print("# Of each structure: its size, and of each field its name, offset and size in bytes (x86-64).")
print('origin = "%s"' % os.environ["HM_ORIGIN"])
for name, value in constants.items():
    print("%s = %d" % (name, value))

numbered = dict(line.split() for line in os.environ["HM_LOCKS"].splitlines())
names = [numbered.get(str(i), "") for i in range(constants["individual_locks"])]
print("individual_lock_names = [\n%s\n]" % quoted(names))
for title, enum, prefix in (("tranches", "BuiltinTrancheIds", "LWTRANCHE_"), ("backend_types", "BackendType", "B_"),
                            ("node_tags", "NodeTag", "T_")):
    print("%s = [" % title)
    for field in enumerators(enum):
        if title == "tranches" and field.name == "LWTRANCHE_FIRST_USER_DEFINED":
            print('  ["", %d],' % field.enumval)
            continue
        print('  ["%s", %d],' % (spelled(title, field.name.removeprefix(prefix)), field.enumval))
    print("]")
for name in STRUCTURES:
    kind = structure(name)
    if kind is None:
        raise gdb.GdbError("the headers do not have %s" % name)
    table(name, kind)
# The same structure under two names.
table("TransamVariables", structure("TransamVariablesData") or structure("VariableCacheData"))
