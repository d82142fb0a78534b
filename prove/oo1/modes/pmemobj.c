/*
 * libpmemobj: pointers are PMEMoid (pool and offset, 16 bytes), followed by pmemobj_direct().
 * Changes in its transactions. The pool is in the store's folder: on tmpfs flushes use processor
 * instructions, on a disk each is an msync.
 */
#include <libpmemobj.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>

#include "die.h"
#include "mode.h"

#define OO1_REF(T) PMEMoid
#define OO1_PTR(T) struct T *
#define OO1_AT(T, p) (p)
#define OO1_GET(T, slot) ((struct T *)pmemobj_direct(slot))
#define OO1_GET_OR_NULL(T, slot) OO1_GET(T, slot)
#define OO1_DROP(p) ((void)(p))
#define OO1_SET(slot, p) ((slot) = pmemobj_oid(p))
#define OO1_EMPTY(slot) OID_IS_NULL(slot)
#define OO1_DIRTY(T, p) dirty(p, sizeof(struct T))
#define OO1_NEW(T, near, from) ((struct T *)new_object(sizeof(struct T)))
#define OO1_ROOT() mode_root
#define OO1_SET_ROOT(p) set_root(p)
#define OO1_BEGIN() begin()
#define OO1_COMMIT() commit()
#define OO1_ENTER() ((void)0)
#define OO1_LEAVE() ((void)0)
#define OO1_PREFETCH(part, hops) ((void)(part))
#define OO1_FLAGS true, true, false, false
#define OO1_STATISTICS NULL

#include "schema.h"

static PMEMobjpool *pool;
static struct oo1_root *mode_root;
static PMEMoid *pool_root; /* leads to it */

static void dirty(void *object, size_t bytes) {
  if (pmemobj_tx_add_range_direct(object, bytes) != 0)
    oo1_die("libpmemobj cannot log a change: %s", pmemobj_errormsg());
}

static void *new_object(size_t bytes) {
  PMEMoid object = pmemobj_tx_zalloc(bytes, 0);
  if (OID_IS_NULL(object)) oo1_die("libpmemobj has no room: %s", pmemobj_errormsg());
  return pmemobj_direct(object);
}

static void set_root(struct oo1_root *root) {
  dirty(pool_root, sizeof *pool_root);
  *pool_root = pmemobj_oid(root);
  mode_root = root;
}

static void begin(void) {
  if (pmemobj_tx_begin(pool, NULL, TX_PARAM_NONE) != 0)
    oo1_die("libpmemobj cannot begin: %s", pmemobj_errormsg());
}

static void commit(void) {
  pmemobj_tx_commit();
  if (pmemobj_tx_end() != 0) oo1_die("libpmemobj cannot commit: %s", pmemobj_errormsg());
}

/* Without this setting it also calls msync on tmpfs, where msync has no effect. */
static char *pool_path(const char *folder) {
  struct statfs status;
  if (statfs(folder, &status) == 0 && status.f_type == TMPFS_MAGIC)
    setenv("PMEM_IS_PMEM_FORCE", "1", 1);
  return oo1_format("%s/parts.pool", folder);
}

static void find_root(void) {
  PMEMoid root = pmemobj_root(pool, sizeof *pool_root);
  if (OID_IS_NULL(root)) oo1_die("libpmemobj has no root: %s", pmemobj_errormsg());
  pool_root = pmemobj_direct(root);
  mode_root = pmemobj_direct(*pool_root);
}

static void oo1_fill(const oo1_graph *graph);
static void mode_load(const oo1_graph *graph, const char *folder) {
  char *path = pool_path(folder);
  /* Otherwise each step of a load on a disk is an msync, which takes hours. */
  setenv("PMEM_IS_PMEM_FORCE", "1", 1);
  size_t bytes = PMEMOBJ_MIN_POOL + (size_t)(graph->header.parts + 10000) * 700;
  pool = pmemobj_create(path, "oo1", bytes, 0666);
  if (pool == NULL) oo1_die("%s cannot be made: %s", path, pmemobj_errormsg());
  find_root();
  oo1_fill(graph);
  pmemobj_close(pool);
  free(path);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room) {
  (void)how, (void)parts, (void)room;
  char *path = pool_path(folder);
  pool = pmemobj_open(path, "oo1");
  if (pool == NULL) oo1_die("%s cannot be opened: %s", path, pmemobj_errormsg());
  find_root();
  free(path);
}

static void mode_close(void) { pmemobj_close(pool); }
static void mode_counts(oo1_counts *counts) { (void)counts; }

#include "database.h"
