/*
 * The seed inputs of the fuzzer: small stores with every kind of structure, in the form of
 * verify_fuzz.c.
 *
 *   make_corpus FOLDER           the fuzzer's
 *   make_corpus FOLDER golden    some of the stores, each as store and log, for test/golden
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocate.h"
#include "../test/memory_device.h"

typedef struct maker {
  const char *folder;
  bool golden;
  memory_device *file, *log;
  p3l_pager *pager;
  p3l_pager_transaction *transaction;
  p3l_error error;
} maker;

static void must(const maker *m, p3l_code code) {
  if (code == P3L_OK) return;
  fprintf(stderr, "make_corpus: %s\n", m->error.message);
  exit(1);
}

static void begin(maker *m) { must(m, p3l_pager_begin(m->pager, &m->transaction, &m->error)); }
static void commit(maker *m) { must(m, p3l_pager_commit(m->transaction, &m->error)); }

static uint64_t take(maker *m, p3l_type_id type, uint64_t bytes) {
  p3l_address address;
  must(m, p3l_room_take(m->transaction, type, bytes, (p3l_address){0}, &address, &m->error));
  return address.byte;
}

static void point_as(maker *m, uint64_t from, uint64_t to, uint8_t generation) {
  p3l_page *page;
  uint64_t surrogate = p3l_surrogate_make((p3l_address){to}, generation);
  must(m, p3l_page_for_writing(m->transaction, (p3l_page_number){from / P3L_PAGE_SIZE}, &page,
                               &m->error));
  memcpy((uint8_t *)page + from % P3L_PAGE_SIZE, &surrogate, sizeof(surrogate));
  p3l_page_changed(m->transaction, page, (uint32_t)(from % P3L_PAGE_SIZE), sizeof(surrogate));
}

static void point(maker *m, uint64_t from, uint64_t to) { point_as(m, from, to, 0); }

static void put_byte(maker *m, uint64_t at, uint8_t byte) {
  p3l_page *page;
  must(m, p3l_page_for_writing(m->transaction, (p3l_page_number){at / P3L_PAGE_SIZE}, &page,
                               &m->error));
  ((uint8_t *)page)[at % P3L_PAGE_SIZE] = byte;
  p3l_page_changed(m->transaction, page, (uint32_t)(at % P3L_PAGE_SIZE), 1);
}

/*
 * Values {kind, a union of pointer and number, ordinary pointer}: an array of three in 80 bytes,
 * whose second union is a pointer, and whose first looks like one. A large one of 300 whose last
 * union is a pointer: bit 299, in the byte of bits 296 to 303.
 */
static void add_unions(maker *m, uint64_t node) {
  static const struct p3l_stored_field fields[] = {{16, 1}, {8, 1}};
  const p3l_stored_type value = {.name = "value",
                                 .version = 1,
                                 .bytes = 24,
                                 .fields = fields,
                                 .field_count = 1,
                                 .union_count = 1};
  enum { LARGE = 300, LARGE_BYTES = (LARGE * 24 + (LARGE + 7) / 8 + 1 + 15) / 16 * 16 };
  p3l_type_table table = {0};
  p3l_type_id id;
  begin(m);
  must(m, p3l_type_table_read(m->pager, &table, &m->error));
  must(m, p3l_type_add(m->transaction, &table, &value, &id, &m->error));
  uint64_t small = take(m, id, 80), large = take(m, id, LARGE_BYTES);
  uint8_t of_small = p3l_room_generation(m->transaction, (p3l_address){small});
  uint8_t of_large = p3l_room_generation(m->transaction, (p3l_address){large});
  p3l_address roots[] = {{(uint64_t)of_small << P3L_ADDRESS_BITS | small},
                         {(uint64_t)of_large << P3L_ADDRESS_BITS | large}};
  point(m, small + 8, node);
  point(m, small + 24 + 8, node);
  point_as(m, small + 48 + 16, small, of_small);
  put_byte(m, small + 79, 1u << 1);
  uint64_t last = (LARGE - 1) * 24 + 8, bits = LARGE_BYTES - 1 - 299 / 8;
  point_as(m, large + P3L_PAGE_SIZE + 64 + last - P3L_LARGE_PART, small, of_small);
  put_byte(m, large + P3L_PAGE_SIZE + 64 + bits - P3L_LARGE_PART, 1u << 299 % 8);
  must(m, p3l_root_set(m->transaction, "small", roots[0], &m->error));
  must(m, p3l_root_set(m->transaction, "large", roots[1], &m->error));
  commit(m);
  p3l_type_table_free(&table);
}

static void write_file(const maker *m, const char *name, const uint8_t *bytes, size_t length) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", m->folder, name);
  FILE *to = fopen(path, "w");
  if (to == NULL || fwrite(bytes, length, 1, to) != 1 || fclose(to) != 0) {
    perror(path);
    exit(1);
  }
}

static void save(const maker *m, const char *name, uint8_t flags) {
  char path[4096];
  if (m->golden && strcmp(name, "log") == 0) name = "ring";
  if (m->golden && (strcmp(name, "holes") == 0 || strcmp(name, "ring") == 0 ||
                    strcmp(name, "reused") == 0 || strcmp(name, "unions") == 0)) {
    snprintf(path, sizeof(path), "%s-log", name);
    write_file(m, name, m->file->bytes, m->file->size);
    write_file(m, path, m->log->bytes, m->log->size);
  }
  if (m->golden) return;
  uint64_t pages = m->file->size / P3L_PAGE_SIZE;
  uint8_t head[4] = {flags, 0, (uint8_t)pages, (uint8_t)(pages >> 8)};
  snprintf(path, sizeof(path), "%s/%s", m->folder, name);
  FILE *to = fopen(path, "w");
  if (to == NULL || fwrite(head, sizeof(head), 1, to) != 1 ||
      fwrite(m->file->bytes, pages * P3L_PAGE_SIZE, 1, to) != 1 ||
      fwrite(m->log->bytes, m->log->size, 1, to) != 1 || fclose(to) != 0) {
    perror(path);
    exit(1);
  }
}

static void open_store(maker *m) {
  p3l_pager_options options = {0};
  must(m, p3l_pager_open_devices(&m->file->device, &m->log->device, &options, &m->pager, NULL,
                                 &m->error));
}

static void checkpoint(maker *m) { must(m, p3l_pager_checkpoint(m->pager, &m->error)); }

static void add_types(maker *m) {
  static const struct p3l_stored_field to[] = {{8, 2}};
  const p3l_stored_type node = {
      .name = "node", .version = 1, .bytes = 24, .fields = to, .field_count = 1};
  const p3l_stored_type blob = {.name = "blob", .version = 2, .bytes = 1};
  p3l_type_table table = {0};
  p3l_type_id id;
  must(m, p3l_type_add(m->transaction, &table, &node, &id, &m->error));
  must(m, p3l_type_add(m->transaction, &table, &blob, &id, &m->error));
  p3l_type_table_free(&table);
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "golden") != 0)) {
    fprintf(stderr, "usage: make_corpus FOLDER [golden]\n");
    return 2;
  }
  maker m = {.folder = argv[1],
             .golden = argc == 3,
             .file = memory_device_new(),
             .log = memory_device_new()};
  enum { NODES = 8 };
  uint64_t nodes[NODES];
  must(&m, p3l_store_format(&m.file->device, &m.log->device, &m.error));
  open_store(&m);
  save(&m, "empty", 3);

  /* A ring of nodes with a large blob, all in the log. */
  begin(&m);
  add_types(&m);
  for (int i = 0; i < NODES; i++) nodes[i] = take(&m, 1, 24);
  uint64_t blob = take(&m, 2, 5000);
  for (int i = 0; i < NODES; i++) point(&m, nodes[i] + 8, nodes[(i + 1) % NODES]);
  point(&m, nodes[0] + 16, blob + 4500);
  must(&m, p3l_root_set(m.transaction, "first", (p3l_address){nodes[0]}, &m.error));
  commit(&m);
  save(&m, "log", 3);
  save(&m, "log-write", 3 + 8);
  checkpoint(&m);
  memset(m.log->bytes + P3L_PAGE_SIZE, 0, m.log->size - P3L_PAGE_SIZE);
  m.log->size = P3L_PAGE_SIZE;
  save(&m, "file", 3);
  save(&m, "file-write", 3 + 8);
  save(&m, "file-numbers", 1 + 4 + 8);

  /* Holes, a forward, a list of pages with holes, free pages; ranges in the log. */
  begin(&m);
  for (int i = 0; i < 2; i++) take(&m, 2, 3900);
  uint64_t gone = take(&m, 2, 3900), rest = take(&m, 2, 100), moved = take(&m, 1, 48);
  must(&m, p3l_room_give(m.transaction, (p3l_address){gone}, &m.error));
  must(&m, p3l_room_give(m.transaction, (p3l_address){nodes[3]}, &m.error));
  must(&m, p3l_room_give(m.transaction, (p3l_address){blob}, &m.error));
  must(&m,
       p3l_room_forward(m.transaction, (p3l_address){nodes[5]}, (p3l_address){moved}, &m.error));
  commit(&m);
  begin(&m);
  point(&m, nodes[4] + 16, rest);
  commit(&m);
  save(&m, "holes", 3);
  save(&m, "holes-write", 3 + 8);
  checkpoint(&m);
  memset(m.log->bytes + P3L_PAGE_SIZE, 0, m.log->size - P3L_PAGE_SIZE);
  m.log->size = P3L_PAGE_SIZE;
  save(&m, "holes-file", 3 + 8);

  /* What came in the place of what was deleted: a stale pointer, a right one, one by way of a forward. */
  if (m.golden) {
    p3l_address again, far;
    begin(&m);
    must(&m, p3l_room_take(m.transaction, 1, 24, (p3l_address){nodes[0]}, &again, &m.error));
    if (again.byte != nodes[3]) return 1;
    point_as(&m, nodes[6] + 16, again.byte, p3l_room_generation(m.transaction, again));
    commit(&m);
    begin(&m);
    must(&m, p3l_room_take(m.transaction, 1, 48, (p3l_address){0}, &far, &m.error));
    must(&m, p3l_room_forward(m.transaction, again, far, &m.error));
    commit(&m);
    save(&m, "reused", 3);
  }
  add_unions(&m, nodes[1]);
  save(&m, "unions", 3);
  save(&m, "unions-write", 3 + 8);
  p3l_pager_close(m.pager, NULL);
  memory_device_free(m.file);
  memory_device_free(m.log);
  return 0;
}
