/*
 * Declarations shared by the files of the group table.
 */
#ifndef CCOPT_GROUP_TABLE_INTERNAL_H
#define CCOPT_GROUP_TABLE_INTERNAL_H

#include "group_table.h"

/* `number`: the group's number, from 1; 0: empty. */
typedef struct GroupSlot {
  uint32 hash;
  uint32 number;
} GroupSlot;

/* A key of KEY_BYTES: the original value of the group's first row, and the number of its bytes
 * that are compared. */
typedef struct StoredBytes {
  uint32 size;
  char value[FLEXIBLE_ARRAY_MEMBER]; /* a varlena, neither compressed nor out of line */
} StoredBytes;

/* Byte values in the direct table: those of ASCII. */
#define DIRECT_VALUES 128

struct GroupTable {
  const Batch *batch; /* the layout of the first input */
  GroupKey *keys;
  int nkeys;
  int ncells;
  int carried[GROUP_MAX_CELLS]; /* columns of the cells after the keys */
  Size state_offset;
  Size size; /* of a record */
  Size limit;
  bool full;   /* memory reached the limit */
  bool lifted; /* no limit until the next reset */
  bool simple; /* a single key, with numbers */

  MemoryContext context;
  GroupSlot *slots;
  uint32 nslots;
  uint32 first_slots;
  uint32 ngroups;
  int chunk_bits; /* log2 of the records in a chunk */
  uint32 nchunks;
  uint32 chunks_capacity;
  char **chunks;
  Bump copies;

  bool direct; /* keys of one byte each: direct_groups finds most rows without hashing */
  GroupRecord **direct_groups;

  MemoryContext scratch; /* detoasted keys of the current batch */
  uint32 *hashes;        /* [BATCH_ROWS] of the current batch, by row */
};

static inline GroupRecord *group_at(const GroupTable *table, uint32 index) {
  return (GroupRecord *)(table->chunks[index >> table->chunk_bits] +
                         (index & ((UINT32_C(1) << table->chunk_bits) - 1)) * table->size);
}

/* Sets the number of a key; false if it has none at the column's scale. */
extern bool group_key_number(const GroupKey *key, const Batch *batch, int row, int64 *number);
/* Creates a group for a row; NULL if there is no space. */
extern GroupRecord *group_table_insert(GroupTable *table, const Batch *batch, int row, uint32 hash);

#endif
