/*
 * The file is mapped; a pointer is an offset from its beginning. The program reads, converts and
 * copies nothing: with a hot page cache, P3L is not faster than this mode.
 *
 * Readers map it shared. A writer maps it private, so that the kernel writes no page before its
 * transaction is durable: changes are written to the log, and then to the file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "changes.h"
#include "die.h"
#include "image.h"
#include "redo.h"

#define OO1_REF(T) uint64_t
#define OO1_PTR(T) struct T *
#define OO1_AT(T, p) (p)
#define OO1_GET(T, slot) ((struct T *)(void *)(base + (slot)))
#define OO1_GET_OR_NULL(T, slot) ((slot) == 0 ? NULL : OO1_GET(T, slot))
#define OO1_DROP(p) ((void)(p))
#define OO1_SET(slot, p) ((slot) = (uint64_t)((char *)(p)-base))
#define OO1_EMPTY(slot) ((slot) == 0)
#define OO1_DIRTY(T, p) dirty(p, sizeof(struct T))
#define OO1_NEW(T, near, from) new_object(sizeof(struct T), fields_of_##T)
#define OO1_ROOT() OO1_GET(oo1_root, header->root)
#define OO1_SET_ROOT(p) OO1_SET(header->root, p)
#define OO1_BEGIN() ((void)0)
#define OO1_COMMIT() commit()
#define OO1_ENTER() ((void)0)
#define OO1_LEAVE() ((void)0)
#define OO1_PREFETCH(part, hops) ((void)(part))
#define OO1_FLAGS true, true, false, true
#define OO1_STATISTICS NULL

static char *base;
static image_header *header;

#include "fields.h"

/* Enough for the largest graph; pages exist only after their first access. */
#define RESERVED (UINT64_C(16) << 30)
#define GROWTH (UINT64_C(64) << 20)

static char *path;
static int file = -1;
static uint64_t file_bytes;
static bool loading;
static redo *log_of_file;

static void dirty(const void *from, uint64_t bytes) {
  if (!loading) changes_add((uint64_t)((const char *)from - base), bytes);
}

static void map(bool private) {
  base = mmap(NULL, RESERVED, PROT_READ | (loading || private ? PROT_WRITE : 0),
              (private ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED) oo1_die_errno("%s cannot be mapped", path);
  header = (image_header *)(void *)base;
}

static void grow(void) {
  if (header->end + IMAGE_PAGE <= file_bytes) return;
  file_bytes += loading ? GROWTH : 16 * IMAGE_PAGE;
  if (ftruncate(file, (off_t)file_bytes) != 0) oo1_die_errno("%s cannot grow", path);
}

static void *new_object(uint64_t bytes, const image_field *fields) {
  grow();
  dirty(&header->end, sizeof header->end);
  uint64_t offset = image_place(&header->end, bytes);
  image_page *page = (image_page *)(void *)(base + offset / IMAGE_PAGE * IMAGE_PAGE);
  image_note(page, offset, fields);
  dirty(page->slots, sizeof page->slots);
  dirty(base + offset, bytes);
  return base + offset;
}

static const void *at(uint64_t offset) { return base + offset; }

static void commit(void) {
  if (!loading) changes_commit(log_of_file, at);
}

#include "mode.h"
static void mode_load(const oo1_graph *graph, const char *folder);
static void mode_open(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room);
static void mode_close(void);
static void mode_counts(oo1_counts *counts) {
  counts->bytes_logged = log_of_file == NULL ? 0 : redo_bytes(log_of_file);
}

#include "database.h"

static void mode_load(const oo1_graph *graph, const char *folder) {
  path = oo1_format("%s/image", folder);
  file = image_create(path);
  loading = true;
  file_bytes = GROWTH;
  if (ftruncate(file, (off_t)file_bytes) != 0) oo1_die_errno("%s cannot grow", path);
  map(false);
  oo1_fill(graph);
  uint64_t used = (header->end + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
  if (msync(base, used, MS_SYNC) != 0 || munmap(base, RESERVED) != 0 ||
      ftruncate(file, (off_t)used) != 0 || fsync(file) != 0 || close(file) != 0)
    oo1_die_errno("%s cannot be written", path);
  loading = false;
  free(path);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room) {
  (void)parts, (void)room;
  path = oo1_format("%s/image", folder);
  file = image_open(path, &file_bytes);
  map(how->writable);
  /* If it does not fit in memory, read-ahead would evict needed pages. */
  if (how->memory_limit != 0 && how->memory_limit < file_bytes)
    madvise(base, file_bytes, MADV_RANDOM);
  if (how->writable) log_of_file = redo_open(path, file);
}

static void mode_close(void) {
  if (log_of_file != NULL) redo_close(log_of_file);
  log_of_file = NULL;
  munmap(base, RESERVED);
  close(file);
  free(path);
}
