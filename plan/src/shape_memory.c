/*
 * The table of shapes.
 */
#include "shape_memory.h"

#include "miscadmin.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#define LOCK_NAME "ccopt_shapes"
#define SIGN_WORDS 32
/* A filter with all bits set would cause every query to be copied. */
#define MOST_SIGNS (SIGN_WORDS * 64 / 4)

typedef struct ShapeTable {
  bool in_use;
  uint64 clock;
  uint64 signs[SIGN_WORDS];
  int signs_known;
  uint64 keys[SHAPE_PLACES]; /* copies of the keys, close together for searching */
  Shape shapes[SHAPE_PLACES];
} ShapeTable;

static const bool not_in_use = false;
static ShapeTable *table = NULL;
static LWLock *lock = NULL; /* NULL: the table is the session's */

const bool *shapes_in_use = &not_in_use;

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* ---- the table's memory ---- */

static void shmem_request(void) {
  if (previous_shmem_request) previous_shmem_request();
  RequestAddinShmemSpace(MAXALIGN(sizeof(ShapeTable)));
  RequestNamedLWLockTranche(LOCK_NAME, 1);
}

static void shmem_startup(void) {
  bool found;

  if (previous_shmem_startup) previous_shmem_startup();
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  table = ShmemInitStruct(LOCK_NAME, sizeof(ShapeTable), &found);
  if (!found) memset(table, 0, sizeof(*table));
  lock = &GetNamedLWLockTranche(LOCK_NAME)->lock;
  LWLockRelease(AddinShmemInitLock);
  shapes_in_use = &table->in_use;
}

void shape_memory_register(void) {
  if (!process_shared_preload_libraries_in_progress) return;
  previous_shmem_request = shmem_request_hook;
  shmem_request_hook = shmem_request;
  previous_shmem_startup = shmem_startup_hook;
  shmem_startup_hook = shmem_startup;
}

void shape_memory_in_use(void) {
  if (table == NULL) {
    table = MemoryContextAllocZero(TopMemoryContext, sizeof(*table));
    shapes_in_use = &table->in_use;
  }
  table->in_use = true;
}

bool shape_memory_is_shared(void) { return lock != NULL; }

void shape_memory_lock(void) {
  if (lock) LWLockAcquire(lock, LW_EXCLUSIVE);
}

void shape_memory_unlock(void) {
  if (lock) LWLockRelease(lock);
}

/* ---- shapes ---- */

static Shape *oldest(void) {
  int place = 0;

  for (int i = 0; i < SHAPE_PLACES; i++) {
    if (table->keys[i] == 0) return &table->shapes[i];
    if (table->shapes[i].used < table->shapes[place].used) place = i;
  }
  return &table->shapes[place];
}

Shape *shape_find(uint64 key, bool make) {
  Shape *shape = NULL;

  if (table == NULL) return NULL;
  for (int i = 0; i < SHAPE_PLACES && shape == NULL; i++)
    if (table->keys[i] == key) shape = &table->shapes[i];
  if (shape == NULL) {
    if (!make) return NULL;
    shape = oldest();
    memset(shape, 0, sizeof(*shape));
    shape->key = key;
    shape->database = MyDatabaseId;
    shape_begin(shape);
    table->keys[shape - table->shapes] = key;
  }
  shape->used = ++table->clock;
  return shape;
}

Shape *shape_at(int i) {
  static Shape none;
  return table ? &table->shapes[i] : &none;
}

void shape_drop(Shape *shape) {
  table->keys[shape - table->shapes] = 0;
  shape->key = 0;
}

/* ---- signs ---- */

static uint64 bit_of(uint32 sign) { return UINT64CONST(1) << (sign >> 1) % 64; }

static uint64 *word_of(uint32 sign) { return &table->signs[(sign >> 7) % SIGN_WORDS]; }

bool sign_is_known(uint32 sign) { return table && (*word_of(sign) & bit_of(sign)) != 0; }

void sign_add(uint32 sign) {
  if (sign_is_known(sign)) return;
  if (table->signs_known >= MOST_SIGNS) {
    memset(table->signs, 0, sizeof(table->signs));
    table->signs_known = 0;
  }
  table->signs_known++;
  *word_of(sign) |= bit_of(sign);
}
