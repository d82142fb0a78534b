#include "e.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "changes.h"
#include "die.h"
#include "files.h"

static char *path;
static int file = -1;
static redo *log_of_file;
static uint64_t page_capacity;
static image_page **frames; /* [page number]; NULL: not read */
static e_figures figures;

/* ---- the hash table: open addressing, at most half full ---- */

typedef struct entry {
  uint64_t id; /* 0: free */
  e_object *object;
} entry;
static entry *table;
static unsigned table_bits;

/* Objects of the table, allocated in blocks: they never move. */
#define BLOCK 4096u
static e_object *block;
static uint32_t block_used;
static void **blocks; /* to free */
static size_t block_count;

static uint64_t slot_of(uint64_t id) {
  return id * UINT64_C(0x9e3779b97f4a7c15) >> (64 - table_bits);
}

static entry *find(uint64_t id) {
  uint64_t mask = (UINT64_C(1) << table_bits) - 1, at = slot_of(id);
  while (table[at].id != id && table[at].id != 0) at = (at + 1) & mask;
  return &table[at];
}

static void grow(void) {
  entry *former = table;
  uint64_t count = table == NULL ? 0 : UINT64_C(1) << table_bits;
  table_bits = table == NULL ? 12 : table_bits + 1;
  table = oo1_allocate_zeroed(sizeof *table << table_bits);
  for (uint64_t i = 0; i < count; i++)
    if (former[i].id != 0) *find(former[i].id) = former[i];
  free(former);
}

static e_object *add(entry *where, uint64_t id, void *address) {
  if (2 * (figures.objects + 1) > UINT64_C(1) << table_bits) {
    grow();
    where = find(id);
  }
  if (block == NULL || block_used == BLOCK) {
    block = oo1_allocate(BLOCK * sizeof *block);
    block_used = 0;
    blocks = realloc(blocks, (block_count + 1) * sizeof *blocks);
    if (blocks == NULL) oo1_die("no memory for objects");
    blocks[block_count++] = block;
  }
  e_object *object = &block[block_used++];
  *object = (e_object){.id = id, .address = address};
  *where = (entry){id, object};
  figures.objects++;
  return object;
}

/* ---- frames ---- */

static image_page *frame_of(uint64_t page) {
  if (page >= page_capacity) oo1_die("%s has no page %lu", path, page);
  if (frames[page] == NULL) {
    frames[page] = aligned_alloc(IMAGE_PAGE, IMAGE_PAGE);
    if (frames[page] == NULL) oo1_die("no memory for a page");
    oo1_read_all(file, path, frames[page], IMAGE_PAGE, page * IMAGE_PAGE);
    figures.pages_read++;
  }
  return frames[page];
}

static void *address_of(uint64_t offset) {
  return (char *)frame_of(offset / IMAGE_PAGE) + offset % IMAGE_PAGE;
}

static const void *at(uint64_t offset) { return address_of(offset); }

/* ---- what programs call ---- */

e_object *e_pin(uint64_t id) {
  entry *found = find(id);
  e_object *object = found->object;
  if (__builtin_expect(found->id == 0, 0)) object = add(found, id, address_of(id));
  object->pins++;
  return object;
}

void e_unpin(e_object *object) { object->pins--; }

static image_header *header(void) { return (image_header *)(void *)frame_of(0); }

e_object *e_root(void) { return e_pin(header()->root); }

e_object *e_new(uint32_t bytes, const image_field *fields) {
  uint64_t id = image_place(&header()->end, bytes), page = id / IMAGE_PAGE;
  changes_add(offsetof(image_header, end), sizeof header()->end);
  if (page >= page_capacity) {
    frames = realloc(frames, 2 * page * sizeof *frames);
    if (frames == NULL) oo1_die("no memory for pages");
    memset(frames + page_capacity, 0, (2 * page - page_capacity) * sizeof *frames);
    page_capacity = 2 * page;
  }
  if (frames[page] == NULL && id % IMAGE_PAGE == IMAGE_OBJECTS) {
    frames[page] = aligned_alloc(IMAGE_PAGE, IMAGE_PAGE); /* a new one */
    if (frames[page] == NULL) oo1_die("no memory for a page");
    memset(frames[page], 0, IMAGE_PAGE);
    changes_add(page * IMAGE_PAGE, IMAGE_PAGE);
  }
  image_page *frame = frame_of(page);
  image_note(frame, id, fields);
  changes_add(page * IMAGE_PAGE, sizeof frame->slots);
  changes_add(id, bytes);
  return e_pin(id);
}

void e_dirty(e_object *object, uint32_t bytes) { changes_add(object->id, bytes); }

void e_commit(void) { changes_commit(log_of_file, at); }

void e_open(const char *name, bool writable) {
  uint64_t bytes;
  path = oo1_format("%s", name);
  file = image_open(path, &bytes);
  page_capacity = bytes / IMAGE_PAGE;
  frames = oo1_allocate_zeroed(page_capacity * sizeof *frames);
  grow();
  memset(&figures, 0, sizeof figures);
  if (writable) log_of_file = redo_open(path, file);
}

void e_close(void) {
  if (log_of_file != NULL) redo_close(log_of_file);
  log_of_file = NULL;
  close(file);
  for (uint64_t i = 0; i < page_capacity; i++) free(frames[i]);
  for (size_t i = 0; i < block_count; i++) free(blocks[i]);
  free(frames), free(blocks), free(table), free(path);
  table = NULL, block = NULL, blocks = NULL, block_count = 0;
}

e_figures e_look(void) {
  figures.bytes_logged = log_of_file == NULL ? 0 : redo_bytes(log_of_file);
  return figures;
}
