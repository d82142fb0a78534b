#include "redo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "die.h"
#include "files.h"

#define MAGIC UINT64_C(0x3174696d6d6f4f4f)

typedef struct commit_head {
  uint64_t magic;
  uint64_t bytes; /* behind the head */
  uint64_t checksum;
} commit_head;

typedef struct range {
  uint64_t offset, count;
} range;

struct redo {
  char *path, *log_path;
  int file, log;
  uint64_t end; /* of the log */
  char *buffer; /* a commit in progress, header included */
  uint64_t used, capacity;
  uint64_t logged;
};

static uint64_t padded(uint64_t count) { return (count + 7) / 8 * 8; }

static uint64_t sum(const char *bytes, uint64_t count) {
  uint64_t result = OO1_CHECKSUM_START, word;
  for (uint64_t i = 0; i < count; i += sizeof word) {
    memcpy(&word, bytes + i, sizeof word);
    result = oo1_mix(result, word);
  }
  return result;
}

static void apply(int file, const char *path, const char *ranges, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes;) {
    range head;
    memcpy(&head, ranges + at, sizeof head);
    at += sizeof head;
    oo1_write_all(file, path, ranges + at, head.count, head.offset);
    at += padded(head.count);
  }
}

void redo_recover(const char *path, int descriptor) {
  char *log_path = oo1_format("%s.log", path);
  int log = open(log_path, O_RDWR | O_CLOEXEC);
  struct stat status;
  if (log >= 0 && fstat(log, &status) == 0 && status.st_size > 0) {
    uint64_t size = (uint64_t)status.st_size;
    char *all = oo1_allocate(size);
    oo1_read_all(log, log_path, all, size, 0);
    for (uint64_t at = 0; at + sizeof(commit_head) <= size;) {
      commit_head head;
      memcpy(&head, all + at, sizeof head);
      at += sizeof head;
      if (head.magic != MAGIC || head.bytes > size - at ||
          head.checksum != sum(all + at, head.bytes))
        break; /* the torn end */
      apply(descriptor, path, all + at, head.bytes);
      at += head.bytes;
    }
    free(all);
    if (fdatasync(descriptor) != 0 || ftruncate(log, 0) != 0)
      oo1_die_errno("%s cannot be recovered", path);
  }
  if (log >= 0) close(log);
  free(log_path);
}

redo *redo_open(const char *path, int descriptor) {
  redo *log = oo1_allocate_zeroed(sizeof *log);
  log->path = oo1_format("%s", path);
  log->log_path = oo1_format("%s.log", path);
  log->file = descriptor;
  log->log = open(log->log_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (log->log < 0) oo1_die_errno("%s cannot be made", log->log_path);
  log->used = sizeof(commit_head);
  return log;
}

static char *take(redo *log, uint64_t count) {
  if (log->used + count > log->capacity) {
    log->capacity = 2 * (log->used + count);
    log->buffer = realloc(log->buffer, log->capacity);
    if (log->buffer == NULL) oo1_die("no memory for a transaction of %lu bytes", log->used);
  }
  char *room = log->buffer + log->used;
  log->used += count;
  return room;
}

void redo_add(redo *log, uint64_t offset, const void *bytes, uint64_t count) {
  range head = {offset, count};
  char *room = take(log, sizeof head + padded(count));
  memcpy(room, &head, sizeof head);
  memset(room + sizeof head + padded(count) - 8, 0, 8);
  memcpy(room + sizeof head, bytes, count);
}

void redo_commit(redo *log) {
  if (log->used == sizeof(commit_head)) return;
  uint64_t bytes = log->used - sizeof(commit_head);
  const char *ranges = log->buffer + sizeof(commit_head);
  commit_head head = {MAGIC, bytes, sum(ranges, bytes)};
  memcpy(log->buffer, &head, sizeof head);
  oo1_write_all(log->log, log->log_path, log->buffer, log->used, log->end);
  if (fdatasync(log->log) != 0) oo1_die_errno("%s cannot be synced", log->log_path);
  apply(log->file, log->path, ranges, bytes);
  log->end += log->used;
  log->logged += log->used;
  log->used = sizeof(commit_head);
}

uint64_t redo_bytes(const redo *log) { return log->logged; }

void redo_close(redo *log) {
  if (fdatasync(log->file) != 0) oo1_die_errno("%s cannot be synced", log->path);
  if (ftruncate(log->log, 0) != 0 || close(log->log) != 0)
    oo1_die_errno("%s cannot be emptied", log->log_path);
  free(log->buffer), free(log->path), free(log->log_path);
  free(log);
}
