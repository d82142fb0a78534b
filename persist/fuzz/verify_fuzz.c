/*
 * Untrusted stores: arbitrary bytes, taken for a file and its log.
 *
 *   byte 0      flags (below)
 *   bytes 2, 3  pages of the file; the log follows
 *
 * Bit flips do not find a valid CRC-32C, so the flags make the entry point correct the checksums
 * before the store reads them, to test the code after the check. All commands run over it, in
 * memory: nothing is written to a disk.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocate.h"
#include "log.h"
#include "../test/memory_device.h"
#include "tool.h"

enum {
  SEAL_PAGES = 1, /* correct page checksums */
  SEAL_LOG = 2,   /* correct checksums of headers and log frames, and the chain of frames */
  NUMBER = 4,     /* pages have the number of their place */
  WRITE = 8,      /* open for writing: collect garbage, make objects */
  HEAD = 4
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* ---- making checksums right ---- */

/* The hashes of type records within the page: layouts are tested, too. */
static void seal_types(p3l_page *page) {
  uint8_t *bytes = (uint8_t *)page;
  for (size_t at = offsetof(p3l_type_page, records);;) {
    p3l_type_record *record = (void *)(bytes + at);
    if (at + sizeof(*record) > P3L_PAGE_SIZE) return;
    size_t fields =
        ((size_t)record->field_count + record->union_count) * sizeof(struct p3l_stored_field);
    size_t name = at + sizeof(*record) + fields, end = name + record->name_bytes;
    if (record->name_bytes == 0 || end % 8 != 0 || end > P3L_PAGE_SIZE || bytes[end - 1] != 0)
      return;
    record->hash =
        p3l_type_hash((const char *)bytes + name, record->version, record->bytes,
                      (const void *)(record + 1), record->field_count, record->union_count);
    at = end;
  }
}

static void seal_pages(uint8_t *file, size_t pages, uint8_t flags) {
  for (size_t number = 0; number < pages; number++) {
    p3l_page page;
    memcpy(&page, file + number * P3L_PAGE_SIZE, sizeof(page));
    if (flags & NUMBER) page.number = number;
    if (((const p3l_type_page *)(const void *)&page)->use == P3L_USE_TYPES) seal_types(&page);
    if (flags & SEAL_PAGES) p3l_page_seal(&page, (p3l_lsn){page.checkpoint});
    memcpy(file + number * P3L_PAGE_SIZE, &page, sizeof(page));
  }
}

/* As in log.c: the checksum of a header's 56 bytes is at byte 20 of them. */
enum { LOG_HEADERS = 4, LOG_SECTOR = 512, LOG_HEADER_BYTES = 56, LOG_CHECKSUM = 20 };

static void seal_log(uint8_t *log, size_t length) {
  uint64_t newest = 0, position = 0;
  uint32_t previous = 0;
  for (int i = 0; i < LOG_HEADERS; i++) {
    uint8_t *header = log + i * LOG_SECTOR;
    uint64_t round;
    if ((size_t)(i + 1) * LOG_SECTOR > length) return;
    memset(header + LOG_CHECKSUM, 0, sizeof(previous));
    uint32_t checksum = p3l_crc32c(0, header, LOG_HEADER_BYTES);
    memcpy(header + LOG_CHECKSUM, &checksum, sizeof(checksum));
    memcpy(&round, header + 40, sizeof(round));
    if (i > 0 && round < newest) continue;
    newest = round;
    previous = checksum;
    memcpy(&position, header + 48, sizeof(position));
  }
  for (size_t at = P3L_LOG_FRAMES; at + sizeof(p3l_frame) <= length;) {
    p3l_frame frame;
    memcpy(&frame, log + at, sizeof(frame));
    if (frame.kind == 0 || frame.length > length - at - sizeof(frame)) return;
    frame.position = position + (at - P3L_LOG_FRAMES);
    frame.previous = previous;
    frame.checksum = p3l_crc32c(0, (const uint8_t *)&frame + sizeof(frame.checksum),
                                sizeof(frame) - sizeof(frame.checksum));
    frame.checksum = p3l_crc32c(frame.checksum, log + at + sizeof(frame), frame.length);
    previous = frame.checksum;
    memcpy(log + at, &frame, sizeof(frame));
    at += sizeof(frame) + (frame.length + 7u) / 8 * 8;
  }
}

/* ---- what is done to a store ---- */

static p3l_code ignore(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  (void)state, (void)index, (void)page, (void)error;
  return P3L_OK;
}

static void look(p3l_pager *pager, const p3l_recovery *recovery, FILE *to) {
  const p3l_dump_options text = {0}, json = {.json = true, .root = "first", .type = "node"};
  const p3l_gc_options dry = {.dry_run = true};
  p3l_verify_store(pager, to);
  p3l_dump_store(pager, &text, to);
  p3l_dump_store(pager, &json, to);
  p3l_stat_store(pager, recovery, to);
  p3l_gc_store(pager, &dry, to);
  const p3l_page_number numbers[] = {{3}, {0}, {7}, {1}, {2}, {2}, {UINT64_C(1) << 43}};
  p3l_pager_read_many(pager, numbers, sizeof(numbers) / sizeof(*numbers), ignore, NULL, NULL);
}

/* If a store appears sound, changes must keep it sound, too: the catalog, the lists. */
static void change(p3l_pager *pager, FILE *to) {
  const p3l_gc_options all = {0};
  const uint64_t sizes[] = {16, 3000, 200, 9000, 64, 4000};
  p3l_pager_transaction *transaction;
  p3l_address near = {P3L_PAGE_SIZE + 80}, address;
  p3l_gc_store(pager, &all, to);
  if (p3l_pager_begin(pager, &transaction, NULL) != P3L_OK) return;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
    if (p3l_room_take(transaction, 1, sizes[i], near, &address, NULL) == P3L_OK) near = address;
    p3l_room_give(transaction, (p3l_address){(i + 1) * P3L_PAGE_SIZE + 80}, NULL);
    p3l_room_give(transaction, (p3l_address){(i + 1) * P3L_PAGE_SIZE}, NULL);
  }
  p3l_root_set(transaction, "last", near, NULL);
  p3l_type_table types = {0};
  const p3l_stored_type another = {.name = "another", .version = 1, .bytes = 8};
  p3l_type_id id;
  if (p3l_type_table_read(pager, &types, NULL) == P3L_OK)
    p3l_type_add(transaction, &types, &another, &id, NULL);
  p3l_type_table_free(&types);
  p3l_pager_commit(transaction, NULL);
  p3l_verify_store(pager, to);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static FILE *nowhere;
  if (nowhere == NULL) nowhere = fopen("/dev/null", "w");
  if (length < HEAD || nowhere == NULL) return 0;
  uint8_t flags = bytes[0];
  size_t pages = bytes[2] | (size_t)bytes[3] << 8, rest = length - HEAD;
  if (pages > rest / P3L_PAGE_SIZE) pages = rest / P3L_PAGE_SIZE;
  size_t log_length = rest - pages * P3L_PAGE_SIZE;
  memory_device *file = memory_device_of(bytes + HEAD, pages * P3L_PAGE_SIZE);
  memory_device *log = memory_device_of(bytes + HEAD + pages * P3L_PAGE_SIZE, log_length);
  seal_pages(file->bytes, pages, flags);
  if (flags & SEAL_LOG) seal_log(log->bytes, log_length);

  p3l_pager *pager;
  p3l_recovery recovery;
  p3l_pager_options options = {.read_only = !(flags & WRITE)};
  if (p3l_pager_open_devices(&file->device, &log->device, &options, &pager, &recovery, NULL) ==
      P3L_OK) {
    look(pager, &recovery, nowhere);
    if (flags & WRITE) change(pager, nowhere);
    p3l_pager_close(pager, NULL);
  }
  memory_device_free(file);
  memory_device_free(log);
  return 0;
}
