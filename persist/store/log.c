/* Writes the log, and reads its headers. log.h has its format and invariants. */
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log_frame.h"

#define LOG_MAGIC "P3L log\r\n\x1a\n\0\0\0\0"

typedef struct log_header {
  char magic[16];
  uint16_t version;
  uint16_t clean;    /* 1: log.h, invariant 5 */
  uint32_t checksum; /* crc32c of the header with this field zero */
  uint8_t store_id[16];
  uint64_t round;
  uint64_t start; /* position of the byte at P3L_LOG_FRAMES */
} log_header;
_Static_assert(sizeof(log_header) == 56, "no padding in the log");

/* Two copies, one sector apart, so that neither a torn write nor one damaged sector destroys
 * both. */
enum { SECTOR = 512, COPIES = 2 };
static p3l_file_offset header_place(uint64_t round, unsigned copy) {
  return (p3l_file_offset){(round % 2 * COPIES + copy) * SECTOR};
}

static uint32_t header_checksum(log_header header) {
  header.checksum = 0;
  return p3l_crc32c(0, &header, sizeof(header));
}

/* Does not sync. */
static p3l_code write_header(p3l_log *log, uint64_t round, p3l_lsn start, bool clean,
                             p3l_error *error) {
  log_header header = {
      .version = P3L_LOG_VERSION, .clean = clean, .round = round, .start = start.byte};
  memcpy(header.magic, LOG_MAGIC, sizeof(header.magic));
  memcpy(header.store_id, log->store_id, sizeof(header.store_id));
  header.checksum = header_checksum(header);
  uint8_t copies[COPIES * SECTOR] = {0};
  for (unsigned copy = 0; copy < COPIES; copy++)
    memcpy(copies + copy * SECTOR, &header, sizeof(header));
  int failed = log->device->write(log->device, copies, sizeof(copies), header_place(round, 0));
  if (failed != 0) return p3l_fail_errno(error, failed, "%s: writing the log's header", log->path);
  log->version = header.version;
  log->round = round;
  log->start = log->end = log->durable = start;
  log->last = header.checksum;
  log->clean = clean;
  return P3L_OK;
}

static p3l_code sync_header(p3l_log *log, p3l_error *error) {
  int failed = log->device->sync(log->device);
  if (failed == 0) return P3L_OK;
  return p3l_fail(error, P3L_BROKEN, "%s: syncing the log's header: %s", log->path,
                  strerror(failed));
}

static void log_init(p3l_log *log, p3l_device *device, const char *path,
                     const uint8_t store_id[16]) {
  *log = (p3l_log){.device = device, .path = path};
  memcpy(log->store_id, store_id, sizeof(log->store_id));
}

p3l_code p3l_log_create(p3l_device *device, const char *path, const uint8_t store_id[16],
                        p3l_error *error) {
  p3l_log log;
  log_init(&log, device, path, store_id);
  p3l_code code = write_header(&log, 0, (p3l_lsn){0}, true, error);
  return code == P3L_OK ? sync_header(&log, error) : code;
}

p3l_code p3l_log_open(p3l_log *log, p3l_device *device, const char *path,
                      const uint8_t store_id[16], p3l_error *error) {
  bool found = false, foreign = false;
  log_init(log, device, path, store_id);
  for (unsigned i = 0; i < 2 * COPIES; i++) {
    uint64_t place = i / COPIES;
    log_header header;
    int failed = device->read(device, &header, sizeof(header), header_place(place, i % COPIES));
    if (failed == ENODATA) continue;
    if (failed != 0) return p3l_fail_errno(error, failed, "%s: reading the log's header", path);
    if (memcmp(header.magic, LOG_MAGIC, sizeof(header.magic)) != 0 ||
        header.checksum != header_checksum(header) || header.round % 2 != place)
      continue;
    if (header.version < P3L_OLDEST_LOG_VERSION || header.version > P3L_LOG_VERSION)
      return p3l_fail(error, P3L_WRONG_VERSION,
                      "%s has version %u of the format, this library knows versions %u to %u", path,
                      header.version, P3L_OLDEST_LOG_VERSION, P3L_LOG_VERSION);
    if (memcmp(header.store_id, store_id, sizeof(header.store_id)) != 0) {
      foreign = true;
      continue;
    }
    if (found && header.round < log->round) continue;
    found = true;
    log->version = header.version;
    log->round = header.round;
    log->start = log->end = log->durable = (p3l_lsn){header.start};
    log->last = header.checksum;
    log->clean = header.clean == 1;
  }
  if (found) return P3L_OK;
  if (foreign)
    return p3l_fail(error, P3L_NOT_A_STORE,
                    "%s is the log of another store; put the right one back", path);
  return p3l_fail(error, P3L_CORRUPT,
                  "%s has no readable header; restore store and log from a copy", path);
}

/* ---- frames ---- */

void p3l_frames_clear(p3l_frames *frames) {
  frames->used = frames->part_count = frames->length = frames->written = 0;
  frames->images = frames->image_bytes = frames->old_image_bytes = 0;
  frames->delta.used = 0;
}

void p3l_frames_free(p3l_frames *frames) {
  free(frames->bytes);
  free(frames->parts);
  *frames = (p3l_frames){0};
}

static void *grown(void *array, size_t *capacity, size_t needed, size_t each) {
  if (needed <= *capacity) return array;
  size_t larger = *capacity * 2 > needed ? *capacity * 2 : needed;
  void *moved = realloc(array, larger * each);
  if (moved != NULL) *capacity = larger;
  return moved;
}

/* Makes space for `more` bytes and for two more parts. */
static bool make_room(p3l_frames *frames, size_t more) {
  uint8_t *bytes = grown(frames->bytes, &frames->capacity, frames->used + more, 1);
  if (bytes != NULL) frames->bytes = bytes;
  struct iovec *parts =
      grown(frames->parts, &frames->part_capacity, frames->part_count + 2, sizeof(*parts));
  if (parts != NULL) frames->parts = parts;
  return bytes != NULL && parts != NULL;
}

/* Extends the last part by `bytes`. */
static void lengthen(p3l_frames *frames, size_t more) {
  if (frames->part_count % 2 == 0)
    frames->parts[frames->part_count++] = (struct iovec){.iov_len = 0};
  frames->parts[frames->part_count - 1].iov_len += more;
  frames->used += more;
}

static p3l_code add(p3l_frames *frames, const p3l_log *log, p3l_frame frame, const void *bytes,
                    p3l_error *error) {
  size_t body = p3l_padded(frame.length);
  bool apart = frame.kind == P3L_FRAME_IMAGE;
  if (!make_room(frames, sizeof(frame) + (apart ? 0 : body)))
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for %zu bytes of log", log->path,
                    frames->length + body);
  frame.position = log->end.byte + frames->length;
  frame.previous = frames->length == 0 ? log->last : frames->last;
  frame.checksum = p3l_frame_checksum(&frame, bytes);
  uint8_t *at = frames->bytes + frames->used;
  memcpy(at, &frame, sizeof(frame));
  if (!apart && bytes != NULL && body > 0) {
    memset(at + sizeof(frame) + body - 8, 0, 8); /* the zeros that fill it up, and more */
    memcpy(at + sizeof(frame), bytes, frame.length);
  }
  lengthen(frames, sizeof(frame) + (apart ? 0 : body));
  if (apart)
    frames->parts[frames->part_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = body};
  frames->length += sizeof(frame) + body;
  frames->last = frame.checksum;
  return P3L_OK;
}

/* Makes a frame of the changes collected so far. */
static p3l_code end_changes(p3l_frames *frames, const p3l_log *log, p3l_error *error) {
  if (frames->delta.used == 0) return P3L_OK;
  p3l_frame changes = {.kind = P3L_FRAME_CHANGES,
                       .address = frames->delta.first * P3L_PAGE_SIZE,
                       .length = (uint32_t)frames->delta.used};
  p3l_code code = add(frames, log, changes, frames->delta.bytes, error);
  if (code == P3L_OK) frames->delta.used = 0;
  return code;
}

p3l_code p3l_frames_add(p3l_frames *frames, const p3l_log *log, p3l_frame_kind kind,
                        p3l_address address, const void *bytes, uint32_t length, p3l_error *error) {
  p3l_code code = end_changes(frames, log, error);
  if (code != P3L_OK) return code;
  return add(frames, log,
             (p3l_frame){.kind = (uint16_t)kind, .address = address.byte, .length = length}, bytes,
             error);
}

p3l_code p3l_frames_add_changes(p3l_frames *frames, const p3l_log *log, p3l_page_number number,
                                const p3l_page *now, const p3l_page *before, uint64_t units,
                                bool *added, p3l_error *error) {
  *added = p3l_delta_add(&frames->delta, number, now, before, units);
  if (*added || frames->delta.used == 0) return P3L_OK;
  p3l_code code = end_changes(frames, log, error);
  if (code == P3L_OK) *added = p3l_delta_add(&frames->delta, number, now, before, units);
  return code;
}

size_t p3l_frames_length(const p3l_frames *frames) {
  return frames->length +
         (frames->delta.used == 0 ? 0 : sizeof(p3l_frame) + p3l_padded(frames->delta.used));
}

p3l_code p3l_frames_add_commit(p3l_frames *frames, const p3l_log *log, p3l_error *error) {
  return p3l_frames_add(frames, log, P3L_FRAME_COMMIT, (p3l_address){log->durable.byte}, NULL, 0,
                        error);
}

static p3l_code write_frames(p3l_log *log, p3l_frames *frames, p3l_error *error) {
  uint8_t *bytes = frames->bytes;
  for (size_t i = 0; i < frames->part_count; i += 2) {
    frames->parts[i].iov_base = bytes;
    bytes += frames->parts[i].iov_len;
  }
  p3l_file_offset at = p3l_log_place(log, (p3l_lsn){log->end.byte + frames->written});
  size_t length = frames->length - frames->written;
  int failed = log->device->write_parts(log->device, frames->parts, frames->part_count, at);
  if (failed != 0)
    return p3l_fail_errno(error, failed, "%s: appending %zu bytes to the log", log->path, length);
  return P3L_OK;
}

p3l_code p3l_log_write_early(p3l_log *log, p3l_frames *frames, p3l_error *error) {
  p3l_code code = end_changes(frames, log, error);
  if (code == P3L_OK) code = write_frames(log, frames, error);
  if (code != P3L_OK) return code;
  if (log->device->start != NULL)
    log->device->start(log->device, p3l_log_place(log, (p3l_lsn){log->end.byte + frames->written}),
                       frames->length - frames->written);
  frames->written = frames->length;
  frames->used = frames->part_count = 0;
  return P3L_OK;
}

p3l_code p3l_log_append(p3l_log *log, p3l_frames *frames, p3l_error *error) {
  p3l_code code = write_frames(log, frames, error);
  if (code != P3L_OK) return code;
  log->end.byte += frames->length;
  log->last = frames->last;
  return P3L_OK;
}

/* The length that an empty log's file keeps. The next session overwrites these bytes: no blocks
 * are allocated and a sync journals no new length (0.09 ms for an OO1 Insert instead of 0.14). 4
 * MB are enough for 30 such commits that are the first to change their pages. */
enum { KEPT_BYTES = 4 << 20 };

p3l_code p3l_log_reset(p3l_log *log, bool clean, p3l_error *error) {
  uint64_t size;
  p3l_code code = write_header(log, log->round + 1, log->end, clean, error);
  /* One copy of the header may already be on the disk. Recovery would then not look for frames
   * that follow in this round. */
  if (code != P3L_OK) return P3L_BROKEN;
  code = sync_header(log, error);
  if (code != P3L_OK || !clean || log->device->shorten == NULL) return code;
  /* If this fails, the file is only longer than necessary. */
  if (log->device->size(log->device, &size) == 0 && size > KEPT_BYTES)
    log->device->shorten(log->device, KEPT_BYTES);
  return P3L_OK;
}

p3l_code p3l_log_disturb(p3l_log *log, p3l_error *error) {
  bool empty = log->end.byte == log->start.byte;
  if (!log->clean && (log->version == P3L_LOG_VERSION || !empty)) return P3L_OK;
  /* Selects the other header: the current one stays unchanged until the next round is on the
   * disk. */
  return write_header(log, log->round + 1, log->end, false, error);
}

/* ---- what a checkpoint announces ---- */

/* Two records after the headers, each in a sector of its own. The later one is valid, the other
 * is overwritten next, so that a record half written by a killed process loses nothing. */
typedef struct announcement {
  uint64_t position;
  uint32_t checksum; /* crc32c of the position and the store's id */
  uint32_t zero;
} announcement;
enum { ANNOUNCEMENT = 2 * COPIES * SECTOR, ANNOUNCEMENTS = 2 };
_Static_assert(ANNOUNCEMENT + ANNOUNCEMENTS * SECTOR <= P3L_LOG_FRAMES, "before the frames");

static uint32_t announcement_checksum(const p3l_log *log, uint64_t position) {
  return p3l_crc32c(p3l_crc32c(0, log->store_id, sizeof(log->store_id)), &position,
                    sizeof(position));
}

static p3l_file_offset announcement_place(unsigned which) {
  return (p3l_file_offset){ANNOUNCEMENT + which * SECTOR};
}

/* *later: index of the later of the two records. */
static uint64_t announced(const p3l_log *log, unsigned *later) {
  uint64_t position = 0;
  *later = 1;
  for (unsigned which = 0; which < ANNOUNCEMENTS; which++) {
    announcement said;
    int failed = log->device->read(log->device, &said, sizeof(said), announcement_place(which));
    if (failed != 0 || said.checksum != announcement_checksum(log, said.position) ||
        said.position < position)
      continue;
    position = said.position;
    *later = which;
  }
  return position;
}

p3l_code p3l_log_announce(p3l_log *log, p3l_lsn position, p3l_error *error) {
  unsigned later;
  announced(log, &later);
  announcement said = {position.byte, announcement_checksum(log, position.byte), 0};
  int failed = log->device->write(log->device, &said, sizeof(said), announcement_place(1 - later));
  if (failed == 0) return P3L_OK;
  return p3l_fail_errno(error, failed, "%s: announcing a checkpoint", log->path);
}

p3l_lsn p3l_log_announced(const p3l_log *log) {
  unsigned later;
  return (p3l_lsn){announced(log, &later)};
}
