/*
 * History files of checkpoints. old_pages.h has the invariants.
 */
#include "old_pages.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "images.h"
#include "readers.h"

#define OLD_MAGIC "P3L old\r\n\x1a\n\0\0\0\0"

typedef struct old_head {
  char magic[16];
  uint8_t store_id[16];
  uint64_t position, previous; /* of this checkpoint; of the last one with a history file, or 0 */
  uint64_t count, room;        /* number of pages; space for them */
  uint32_t checksum;           /* crc32c of the numbers, then of the head with this field zero */
  uint32_t zero;
} old_head;
_Static_assert(sizeof(old_head) == 72, "no padding in the file");

/* A history file as a reader opened it. */
typedef struct old_file {
  p3l_device *device;
  old_head head;
  uint64_t *numbers;
  struct old_file *next; /* of an earlier checkpoint */
} old_file;

struct p3l_old_pages {
  /* For the writer: positions of history files, ascending. */
  uint64_t *positions;
  size_t count, capacity;
  struct timespec looked;
  /* For a reader: history files, the newest first. Guarded by `lock`. */
  pthread_mutex_t lock;
  old_file *files;
};

static p3l_file_offset pages_begin(uint64_t room) {
  uint64_t bytes = P3L_PAGE_SIZE + room * sizeof(uint64_t);
  return (p3l_file_offset){(bytes + P3L_PAGE_SIZE - 1) / P3L_PAGE_SIZE * P3L_PAGE_SIZE};
}

static uint32_t head_checksum(old_head head, const uint64_t *numbers) {
  head.checksum = 0;
  return p3l_crc32c(p3l_crc32c(0, numbers, head.count * sizeof(*numbers)), &head, sizeof(head));
}

static p3l_code no_memory(const p3l_pager *pager, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for old pages", pager->path);
}

/* The caller frees the name; NULL: no memory. */
static char *name_of(const p3l_pager *pager, uint64_t position) {
  char *name;
  return asprintf(&name, "%s-old-%016llx", pager->path, (unsigned long long)position) < 0 ? NULL
                                                                                          : name;
}

static p3l_old_pages *old_pages_of(p3l_pager *pager) {
  if (pager->old == NULL) {
    pager->old = calloc(1, sizeof(*pager->old));
    if (pager->old != NULL) pthread_mutex_init(&pager->old->lock, NULL);
  }
  return pager->old;
}

/* ---- the writer ---- */

static bool add_position(p3l_old_pages *old, uint64_t position) {
  if (old->count == old->capacity) {
    size_t capacity = old->capacity == 0 ? 16 : 2 * old->capacity;
    uint64_t *positions = realloc(old->positions, capacity * sizeof(*positions));
    if (positions == NULL) return false;
    old->positions = positions;
    old->capacity = capacity;
  }
  size_t at = old->count++;
  for (; at > 0 && old->positions[at - 1] > position; at--)
    old->positions[at] = old->positions[at - 1];
  old->positions[at] = position;
  return true;
}

static void remove_file(const p3l_pager *pager, uint64_t position) {
  char *name = name_of(pager, position);
  if (name != NULL) unlink(name);
  free(name);
}

/* Invariant 2. A reader that is still registering does not have a base yet. */
static void remove_unneeded(p3l_pager *pager, bool any, p3l_lsn oldest, p3l_lsn newest) {
  p3l_old_pages *old = pager->old;
  size_t gone = 0;
  if (any && newest.byte >= P3L_ARRIVING) return;
  while (gone < old->count && (!any || old->positions[gone] <= oldest.byte))
    remove_file(pager, old->positions[gone++]);
  memmove(old->positions, old->positions + gone, (old->count - gone) * sizeof(*old->positions));
  old->count -= gone;
}

void p3l_old_pages_trim(p3l_pager *pager, bool now) {
  p3l_old_pages *old = pager->old;
  if (old == NULL || old->count == 0) return;
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  if (!now && time.tv_sec == old->looked.tv_sec) return;
  old->looked = time;
  p3l_lsn oldest, newest;
  bool any = p3l_readers_span(p3l_file_descriptor(pager->file), &oldest, &newest);
  remove_unneeded(pager, any, oldest, newest);
}

/* Finds the history files in the store's folder and removes those that are incomplete. */
static p3l_code find_files(p3l_pager *pager, p3l_error *error) {
  char *copy = strdup(pager->path), *copy2 = strdup(pager->path), *prefix = NULL;
  p3l_code code = P3L_OK;
  if (copy == NULL || copy2 == NULL || asprintf(&prefix, "%s-old-", basename(copy2)) < 0) {
    prefix = NULL;
    code = no_memory(pager, error);
  }
  DIR *folder = code == P3L_OK ? opendir(dirname(copy)) : NULL;
  struct dirent *entry;
  while (folder != NULL && code == P3L_OK && (entry = readdir(folder)) != NULL) {
    size_t length = strlen(prefix);
    if (strncmp(entry->d_name, prefix, length) != 0) continue;
    char *end;
    uint64_t position = strtoull(entry->d_name + length, &end, 16);
    if (strlen(entry->d_name + length) != 16 || *end != '\0') continue;
    p3l_old_pages *old = old_pages_of(pager);
    if (old == NULL || !add_position(old, position)) code = no_memory(pager, error);
  }
  if (folder != NULL) closedir(folder);
  free(copy);
  free(copy2);
  free(prefix);
  return code;
}

p3l_code p3l_old_pages_open(p3l_pager *pager, p3l_error *error) {
  if (pager->read_only) return old_pages_of(pager) == NULL ? no_memory(pager, error) : P3L_OK;
  if (p3l_file_descriptor(pager->file) < 0) return P3L_OK;
  p3l_code code = find_files(pager, error);
  p3l_old_pages_trim(pager, true);
  return code;
}

/* Number of pages copied with one write. */
enum { KEPT_PAGES = 64 };

/* A history file being written. */
typedef struct keeping {
  p3l_pager *pager;
  p3l_device *device;
  p3l_lsn newest; /* newest base being read */
  uint64_t *numbers;
  uint64_t count, room;
  p3l_page *pages; /* [KEPT_PAGES]: pages not written yet */
  size_t waiting;
} keeping;

static int write_waiting(keeping *keeping) {
  uint64_t before = keeping->count - keeping->waiting;
  p3l_file_offset at = {pages_begin(keeping->room).byte + before * P3L_PAGE_SIZE};
  size_t bytes = keeping->waiting * P3L_PAGE_SIZE;
  keeping->waiting = 0;
  return bytes == 0 ? 0 : keeping->device->write(keeping->device, keeping->pages, bytes, at);
}

/* No reader needs a page that the file does not have yet, that is damaged, or that is newer than
 * every version being read. */
static int keep_page(keeping *keeping, uint64_t number) {
  p3l_device *file = keeping->pager->file;
  p3l_page *page = &keeping->pages[keeping->waiting];
  if (file->read(file, page, sizeof(*page), (p3l_file_offset){number * P3L_PAGE_SIZE}) != 0 ||
      p3l_page_fault(page, (p3l_page_number){number}) != NULL ||
      page->checkpoint > keeping->newest.byte)
    return 0;
  keeping->numbers[keeping->count++] = number;
  return ++keeping->waiting == KEPT_PAGES ? write_waiting(keeping) : 0;
}

static int write_head(keeping *keeping, uint64_t position, uint64_t previous) {
  old_head head = {
      .position = position, .previous = previous, .count = keeping->count, .room = keeping->room};
  memcpy(head.magic, OLD_MAGIC, sizeof(head.magic));
  memcpy(head.store_id, keeping->pager->log.store_id, sizeof(head.store_id));
  head.checksum = head_checksum(head, keeping->numbers);
  p3l_device *device = keeping->device;
  int failed = device->write(device, &head, sizeof(head), (p3l_file_offset){0});
  return failed != 0 ? failed
                     : device->write(device, keeping->numbers, head.count * sizeof(uint64_t),
                                     (p3l_file_offset){P3L_PAGE_SIZE});
}

/* The file gets its name only when it is complete. */
static int make_file(keeping *keeping, p3l_image *const *images, uint64_t position,
                     uint64_t previous) {
  char *name = name_of(keeping->pager, position), *fresh = NULL;
  if (name == NULL || asprintf(&fresh, "%s-old-new", keeping->pager->path) < 0) {
    free(name);
    return ENOMEM;
  }
  unlink(fresh);
  int failed = p3l_file_open(fresh, P3L_OPEN_CREATE, false, &keeping->device);
  for (uint64_t at = 0; at < keeping->room && failed == 0; at++)
    failed = keep_page(keeping, images[at]->number);
  if (failed == 0) failed = write_waiting(keeping);
  if (failed == 0) failed = write_head(keeping, position, previous);
  if (keeping->device != NULL) keeping->device->close(keeping->device);
  if (failed == 0 && rename(fresh, name) != 0) failed = errno;
  if (failed != 0) unlink(fresh);
  free(name);
  free(fresh);
  return failed;
}

/* A history file of this position was left by a killed writer: it has the same pages, and the
 * file no longer has the ones the killed writer overwrote. */
static bool has_position(const p3l_old_pages *old, uint64_t position) {
  for (size_t at = 0; at < old->count; at++)
    if (old->positions[at] == position) return true;
  return false;
}

static p3l_code keep(p3l_pager *pager, p3l_image *const *images, size_t count, p3l_lsn position,
                     p3l_lsn newest, p3l_error *error) {
  p3l_old_pages *old = pager->old;
  keeping keeping = {.pager = pager,
                     .newest = newest,
                     .room = count,
                     .numbers = malloc(count * sizeof(uint64_t)),
                     .pages = malloc(KEPT_PAGES * sizeof(p3l_page))};
  uint64_t previous = old->count == 0 ? 0 : old->positions[old->count - 1];
  int failed = keeping.numbers == NULL || keeping.pages == NULL
                   ? ENOMEM
                   : make_file(&keeping, images, position.byte, previous);
  if (failed == 0 && !add_position(old, position.byte)) failed = ENOMEM;
  free(keeping.numbers);
  free(keeping.pages);
  if (failed == 0) return P3L_OK;
  return p3l_fail_errno(error, failed, "%s: keeping pages that other processes read", pager->path);
}

/* Orders this process's accesses for other processes. gcc's thread sanitizer supports no fences
   and sees no other process; there an atomic exchange replaces the fence. */
static void full_fence(void) {
#ifdef __SANITIZE_THREAD__
  static int ordered;
  __atomic_fetch_add(&ordered, 1, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

bool p3l_old_pages_needed(const p3l_pager *pager) {
  p3l_lsn oldest, newest;
  int descriptor = p3l_file_descriptor(pager->file);
  full_fence(); /* snapshot.h, invariant 2 */
  return descriptor >= 0 && p3l_readers_span(descriptor, &oldest, &newest);
}

p3l_code p3l_old_pages_save(p3l_pager *pager, p3l_image *const *images, size_t count,
                            p3l_lsn position, p3l_error *error) {
  p3l_lsn oldest, newest;
  int descriptor = p3l_file_descriptor(pager->file);
  if (descriptor < 0 || count == 0) return P3L_OK;
  /* The frames of this round must be visible before the search for readers: snapshot.h,
   * invariant 2. */
  full_fence();
  bool any = p3l_readers_span(descriptor, &oldest, &newest);
  if (pager->old != NULL) remove_unneeded(pager, any, oldest, newest);
  if (!any) return P3L_OK;
  if (old_pages_of(pager) == NULL) return no_memory(pager, error);
  p3l_code code = P3L_OK;
  if (!has_position(pager->old, position.byte))
    code = keep(pager, images, count, position, newest, error);
  if (code == P3L_OK) code = p3l_log_announce(&pager->log, position, error);
  full_fence(); /* before the first page is written */
  return code;
}

/* ---- a reader ---- */

static void close_file(old_file *file) {
  if (file->device != NULL) file->device->close(file->device);
  free(file->numbers);
  free(file);
}

/* *opened stays NULL if the file does not exist. */
static p3l_code open_file(p3l_pager *pager, uint64_t position, old_file **opened,
                          p3l_error *error) {
  char *name = name_of(pager, position);
  old_file *file = calloc(1, sizeof(*file));
  p3l_code code = name == NULL || file == NULL ? no_memory(pager, error) : P3L_OK;
  int failed = code == P3L_OK ? p3l_file_open(name, P3L_OPEN_READ, false, &file->device) : 0;
  bool there = failed != ENOENT && code == P3L_OK;
  if (there && failed == 0) {
    failed =
        file->device->read(file->device, &file->head, sizeof(file->head), (p3l_file_offset){0});
    uint64_t bytes = 0;
    if (failed == 0) failed = file->device->size(file->device, &bytes);
    if (failed == 0 && (file->head.count > file->head.room ||
                        file->head.count > bytes / (P3L_PAGE_SIZE + sizeof(uint64_t))))
      failed = ENODATA;
    if (failed == 0) {
      file->numbers = malloc(file->head.count * sizeof(*file->numbers) + 1);
      failed = file->numbers == NULL ? ENOMEM
                                     : file->device->read(file->device, file->numbers,
                                                          file->head.count * sizeof(*file->numbers),
                                                          (p3l_file_offset){P3L_PAGE_SIZE});
    }
    if (failed == 0 && (memcmp(file->head.magic, OLD_MAGIC, sizeof(file->head.magic)) != 0 ||
                        memcmp(file->head.store_id, pager->log.store_id, 16) != 0 ||
                        file->head.checksum != head_checksum(file->head, file->numbers)))
      failed = EBADMSG;
  }
  if (there && failed != 0)
    code = p3l_fail_errno(error, failed, "%s: reading pages that were kept", name);
  free(name);
  if (there && code == P3L_OK) {
    *opened = file;
  } else if (file != NULL) {
    close_file(file);
  }
  return code;
}

/* Opens history files from the newest that the log names to the newest that is known. */
static p3l_code find_newer(p3l_pager *pager, p3l_error *error) {
  p3l_old_pages *old = pager->old;
  uint64_t known = old->files == NULL ? pager->base.byte : old->files->head.position;
  if (known < pager->base.byte) known = pager->base.byte;
  old_file *first = NULL, **end = &first;
  uint64_t position = p3l_log_announced(&pager->log).byte;
  p3l_code code = P3L_OK;
  while (position > known && code == P3L_OK) {
    old_file *file = NULL;
    code = open_file(pager, position, &file, error);
    if (file == NULL) break;
    *end = file;
    end = &file->next;
    position = file->head.previous < position ? file->head.previous : 0;
  }
  *end = old->files;
  old->files = first;
  return code;
}

static bool find_number(const old_file *file, uint64_t number, uint64_t *index) {
  uint64_t low = 0, high = file->head.count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (file->numbers[middle] < number)
      low = middle + 1;
    else
      high = middle;
  }
  *index = low;
  return low < file->head.count && file->numbers[low] == number;
}

/* Invariant 3: finds the newest state that is not newer than the base. */
static bool look(const p3l_pager *pager, p3l_page_number number, p3l_page *page) {
  bool found = false;
  for (old_file *file = pager->old->files; file != NULL; file = file->next) {
    p3l_page kept;
    uint64_t index;
    if (file->head.position <= pager->base.byte || !find_number(file, number.n, &index)) continue;
    p3l_file_offset at = {pages_begin(file->head.room).byte + index * P3L_PAGE_SIZE};
    if (file->device->read(file->device, &kept, sizeof(kept), at) != 0 ||
        p3l_page_fault(&kept, number) != NULL || kept.checkpoint > pager->base.byte ||
        (found && kept.checkpoint <= page->checkpoint))
      continue;
    *page = kept;
    found = true;
  }
  return found;
}

p3l_code p3l_old_pages_read(p3l_pager *pager, p3l_page_number number, p3l_page *page, bool *found,
                            p3l_error *error) {
  *found = false;
  pthread_mutex_lock(&pager->old->lock);
  p3l_code code = P3L_OK;
  *found = look(pager, number, page);
  if (!*found) {
    code = find_newer(pager, error);
    if (code == P3L_OK) *found = look(pager, number, page);
  }
  pthread_mutex_unlock(&pager->old->lock);
  return code;
}

void p3l_old_pages_forget(p3l_pager *pager, p3l_lsn base) {
  for (old_file **at = &pager->old->files; *at != NULL;) {
    old_file *file = *at;
    if (file->head.position > base.byte) {
      at = &file->next;
      continue;
    }
    *at = file->next;
    close_file(file);
  }
}

void p3l_old_pages_close(p3l_pager *pager) {
  if (pager->old == NULL) return;
  p3l_old_pages_forget(pager, (p3l_lsn){UINT64_MAX});
  pthread_mutex_destroy(&pager->old->lock);
  free(pager->old->positions);
  free(pager->old);
  pager->old = NULL;
}
