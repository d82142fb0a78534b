/*
 * Upgraded objects are longer in memory than their pieces in the store. The bytes after a piece
 * belong to the next object, in every state of the page.
 */
#include "programs.h"

typedef struct cell1 {
  uint64_t number;
  struct cell1 *next;
} cell1;
static const p3l_field cell1_fields[] = {P3L_POINTERS(cell1, next), {NULL, 0, 0}};
static const p3l_type cell1_type = {"cell", 1, sizeof(cell1), cell1_fields, NULL};

typedef struct cell2 {
  uint64_t number;
  struct cell2 *next;
  uint64_t added[6];
} cell2;
static bool upgrade_cell(const void *old_object, size_t old_bytes, uint32_t old_version,
                         void *new_object, size_t new_bytes) {
  const cell1 *from = old_object;
  cell2 *to = new_object;
  to->number = from->number;
  to->next = (cell2 *)from->next;
  return old_version == 1 && old_bytes == sizeof(*from) && new_bytes == sizeof(*to);
}
static const p3l_field cell2_fields[] = {P3L_POINTERS(cell2, next), {NULL, 0, 0}};
static const p3l_type cell2_type = {"cell", 2, sizeof(cell2), cell2_fields, upgrade_cell};

/* An array that becomes a large object when it is upgraded. */
typedef struct row1 {
  uint8_t bytes[24];
} row1;
typedef struct row2 {
  uint8_t bytes[32];
  uint64_t more[12];
} row2;
static const p3l_field no_fields[] = {{NULL, 0, 0}};
static bool upgrade_row(const void *old_object, size_t old_bytes, uint32_t old_version,
                        void *new_object, size_t new_bytes) {
  (void)old_version, (void)new_bytes;
  memcpy(new_object, old_object, old_bytes);
  return true;
}
static const p3l_type row1_type = {"row", 1, sizeof(row1), no_fields, NULL};
static const p3l_type row2_type = {"row", 2, sizeof(row2), no_fields, upgrade_row};

enum { CELLS = 400, ROWS = 60 };

static void write_version_1(void) {
  p3l_register_type(&cell1_type);
  p3l_register_type(&row1_type);
  p3l_store *store = open_store(false);
  begin_in(store);
  cell1 *next = NULL;
  for (uint64_t i = CELLS; i-- > 0;) {
    cell1 *made = p3l_allocate(store, &cell1_type, 1, NULL);
    *made = (cell1){i, next};
    next = made;
    if (i == 20) p3l_set_root(store, "twentieth", made);
    if (i == 19) p3l_set_root(store, "nineteenth", made);
    if (i == 30) p3l_set_root(store, "thirtieth", made);
  }
  p3l_set_root(store, "first", next);
  row1 *pair = p3l_allocate(store, &row1_type, 2, NULL);
  p3l_set_root(store, "pair", pair);
  commit_and_close(store);
}

/* Cells of a page are adjacent, later ones at higher addresses: the 19th follows the 20th. */
static void read_behind_an_upgraded_one(void) {
  p3l_error error;
  p3l_register_type(&cell2_type);
  p3l_register_type(&row2_type);
  p3l_store *store = open_store(false);
  cell2 *twentieth = p3l_root(store, "twentieth");
  EXPECT(twentieth->number == 20);
  /* A change in the same page drops the pool's frame for it. */
  begin_in(store);
  cell2 *thirtieth = p3l_root(store, "thirtieth");
  P3L_SET(thirtieth->added[0], 1);
  EXPECT(p3l_commit(store, &error) == P3L_OK);
  cell2 *nineteenth = p3l_root(store, "nineteenth");
  EXPECT(nineteenth->number == 19);
  EXPECT((uint8_t *)nineteenth != (uint8_t *)twentieth + 16);
  close_store(store);
}

static void read_array_end(void) {
  p3l_register_type(&cell2_type);
  p3l_register_type(&row2_type);
  p3l_store *store = open_store(false);
  row2 *pair = p3l_root(store, "pair");
  EXPECT(p3l_extent(pair) > 2 * sizeof(row2));
  cell2 *first = p3l_root(store, "first");
  EXPECT(p3l_extent(first) == sizeof(cell2)); /* a single object is not an array */
  close_store(store);
}

static void neighbours_are_their_own(void **state) {
  (void)state;
  make_folder();
  run_program(write_version_1);
  run_program(read_behind_an_upgraded_one);
  remove_folder();
}

static void arrays_keep_their_end(void **state) {
  (void)state;
  make_folder();
  run_program(write_version_1);
  run_program(read_array_end);
  remove_folder();
}

/* ---- many objects move into one page, and one out of it ---- */

/* Version 1: the page filled last has the row array and free space; the cells are in full pages. */
static void write_for_moves(void) {
  p3l_register_type(&cell1_type);
  p3l_register_type(&row1_type);
  p3l_store *store = open_store(false);
  begin_in(store);
  cell1 *next = NULL;
  for (uint64_t i = CELLS; i-- > 0;) {
    cell1 *made = p3l_allocate(store, &cell1_type, 1, NULL);
    *made = (cell1){i, next};
    next = made;
  }
  p3l_set_root(store, "first", next);
  /* Too long for the rest of the cells' page. */
  row1 *rows = p3l_allocate(store, &row1_type, ROWS, NULL);
  for (int i = 0; i < ROWS; i++) rows[i].bytes[0] = (uint8_t)i;
  p3l_set_root(store, "rows", rows);
  commit_and_close(store);
}

static void move_them(void) {
  p3l_error error;
  p3l_register_type(&cell2_type);
  p3l_register_type(&row2_type);
  p3l_store *store = open_store(false);
  row2 *rows = p3l_root(store, "rows");
  begin_in(store);
  P3L_SET(rows[0].more[0], 5);
  cell2 *at = p3l_root(store, "first");
  for (int i = 0; i < 30; i++, at = P3L_LD(at->next)) P3L_SET(at->added[5], at->number);
  EXPECT(p3l_commit(store, &error) == P3L_OK);
  /* Their addresses changed in the store but not in memory. */
  at = p3l_root(store, "first");
  for (uint64_t i = 0; i < CELLS; i++, at = P3L_LD(at->next)) {
    EXPECT(at->number == i);
    EXPECT(p3l_swizzle(NULL, p3l_surrogate(at)) == at);
  }
  for (int i = 0; i < ROWS; i++) EXPECT(rows[i].bytes[0] == i);
  EXPECT(p3l_root(store, "rows") == rows);
  close_store(store);
}

static void one_moves_out_many_move_in(void **state) {
  (void)state;
  make_folder();
  run_program(write_for_moves);
  run_program(move_them);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours_are_their_own),
                                     cmocka_unit_test(arrays_keep_their_end),
                                     cmocka_unit_test(one_moves_out_many_move_in)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
