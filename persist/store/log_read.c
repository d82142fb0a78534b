/*
 * Reads the frames of the log and checks them. log.h has the format and the invariants.
 *
 * Frames are read by way of a window of the file: a commit that is the first to change its pages has two
 * frames a page, which took two system calls each.
 *
 * Invariants:
 *  1. The window is dropped before the size of the file is asked for again: what is read after that
 *     is not older than the answer.
 *  2. Bytes in the window may be older than the file, which a writer changes meanwhile. So an invalid
 *     frame shows the end of the log as it was when the window was filled; it is damage only if it is
 *     still invalid in a window that was filled after a later commit was seen.
 */
#include <stdlib.h>
#include <string.h>

#include "log_frame.h"

/* True if a frame's own fields are plausible; its checksum is tested afterwards. */
static bool frame_possible(const p3l_frame *frame, p3l_lsn position) {
  if (frame->position != position.byte || frame->zero != 0) return false;
  switch (frame->kind) {
    case P3L_FRAME_IMAGE:
      return frame->length == P3L_PAGE_SIZE && frame->address % P3L_PAGE_SIZE == 0;
    case P3L_FRAME_RANGE:
      return frame->length > 0 && frame->address % P3L_PAGE_SIZE + frame->length <= P3L_PAGE_SIZE;
    case P3L_FRAME_COMMIT: return frame->length == 0;
    case P3L_FRAME_CHANGES:
      return frame->length > 0 && frame->length <= P3L_PAGE_SIZE &&
             frame->address % P3L_PAGE_SIZE == 0;
    default: return false;
  }
}

enum {
  WINDOW = 1 << 16,
  /* What is searched behind the end of a log that was read before: little, so that refreshing is fast. */
  NEWS_BYTES = 1 << 15,
  /* The first window of such a log: most commits that a reader polls for are shorter, and what is to
   * be searched behind their end is then in memory already. */
  NEWS_WINDOW = NEWS_BYTES + (1 << 13)
};

typedef struct reader {
  p3l_log *log;
  uint64_t size;               /* size of the file */
  uint64_t begin, end;         /* place of the window in the file; equal: it is empty */
  size_t ahead;                /* bytes that the next window is to have */
  p3l_frame frame;             /* as read_frame() found it */
  const uint8_t *bytes;        /* that follow it, in the window */
  uint64_t window[WINDOW / 8]; /* frames begin at multiples of eight, in the file and here */
} reader;

/* Brings [at, at + length), which the file has, into the window; *bytes points there until the next call. */
static p3l_code look(reader *reader, uint64_t at, size_t length, const uint8_t **bytes,
                     p3l_error *error) {
  if (at < reader->begin || at + length > reader->end) {
    uint64_t wanted = reader->ahead > length ? reader->ahead : length, left = reader->size - at;
    size_t taken = (size_t)(wanted < left ? wanted : left);
    p3l_device *device = reader->log->device;
    reader->begin = reader->end = at;
    reader->ahead = WINDOW;
    int failed = device->read(device, reader->window, taken, (p3l_file_offset){at});
    if (failed != 0)
      return p3l_fail_errno(error, failed, "%s: reading the log at byte %llu", reader->log->path,
                            (unsigned long long)at);
    reader->end = at + taken;
  }
  *bytes = (const uint8_t *)reader->window + (at - reader->begin);
  return P3L_OK;
}

/* Reads the frame at a position. *valid: the frame is valid on its own, without the frames
 * before it. */
static p3l_code read_frame(reader *reader, p3l_lsn position, bool *valid, p3l_error *error) {
  uint64_t at = p3l_log_place(reader->log, position).byte;
  const uint8_t *bytes;
  *valid = false;
  reader->frame = (p3l_frame){0};
  if (at + sizeof(p3l_frame) > reader->size) return P3L_OK;
  p3l_code code = look(reader, at, sizeof(p3l_frame), &bytes, error);
  if (code != P3L_OK) return code;
  memcpy(&reader->frame, bytes, sizeof(p3l_frame));
  if (!frame_possible(&reader->frame, position)) return P3L_OK;
  size_t length = sizeof(p3l_frame) + p3l_padded(reader->frame.length);
  if (at + length > reader->size) return P3L_OK;
  code = look(reader, at, length, &bytes, error);
  if (code != P3L_OK) return code;
  /* The window may have been filled again meanwhile: head and bytes are to be of one. */
  memcpy(&reader->frame, bytes, sizeof(p3l_frame));
  reader->bytes = bytes + sizeof(p3l_frame);
  *valid = frame_possible(&reader->frame, position) &&
           sizeof(p3l_frame) + p3l_padded(reader->frame.length) == length &&
           reader->frame.checksum == p3l_frame_checksum(&reader->frame, reader->bytes);
  return P3L_OK;
}

/*
 * Searches the log after an invalid frame at `hole`. If a later commit records that the log was
 * durable beyond it, a torn write cannot be the cause (invariant 6). Frames begin at multiples of
 * eight; false candidates already fail the test of their position. Reads at most `most` bytes after
 * the hole.
 */
static p3l_code look_behind(reader *reader, p3l_lsn hole, uint64_t most, bool *torn,
                            p3l_error *error) {
  p3l_log *log = reader->log;
  uint64_t from = p3l_log_place(log, hole).byte;
  uint64_t end = reader->size > from && reader->size - from > most ? from + most : reader->size;
  *torn = false;
  for (uint64_t at = from, behind; at + 8 <= end; at = behind) {
    /* What the window has of it; from there on as much as it takes. */
    behind = at >= reader->begin && at + 8 <= reader->end ? reader->end : at + WINDOW;
    if (behind > end) behind = end;
    behind = at + ((behind - at) & ~(uint64_t)7);
    const uint8_t *bytes;
    p3l_code code = look(reader, at, (size_t)(behind - at), &bytes, error);
    for (uint64_t word = at; word < behind && code == P3L_OK; word += 8) {
      /* The third word of a frame is its position. */
      p3l_lsn position = {log->start.byte +
                          (word - offsetof(p3l_frame, position) - P3L_LOG_FRAMES)};
      uint64_t value;
      memcpy(&value, bytes + (word - at), sizeof(value));
      if (value != position.byte || position.byte < hole.byte) continue;
      bool valid;
      *torn = true;
      code = read_frame(reader, position, &valid, error);
      if (code == P3L_OK && valid && reader->frame.kind == P3L_FRAME_COMMIT &&
          reader->frame.address > hole.byte)
        code = p3l_fail(error, P3L_CORRUPT,
                        "%s: the log is damaged at byte %llu, before transactions that were "
                        "committed; restore store "
                        "and log from a copy",
                        log->path, (unsigned long long)from);
      if (code == P3L_OK) code = look(reader, at, (size_t)(behind - at), &bytes, error);
    }
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

/* Continues from the end of the log through all valid frames. *begun: an incomplete frame
 * follows. */
static p3l_code read_frames(reader *reader, p3l_lsn *position, uint32_t *previous,
                            p3l_frame_visitor visitor, void *state, p3l_log_tail *tail, bool *begun,
                            p3l_error *error) {
  p3l_log *log = reader->log;
  for (;;) {
    bool valid;
    p3l_code code = read_frame(reader, *position, &valid, error);
    if (code != P3L_OK) return code;
    if (!valid || reader->frame.previous != *previous) {
      /* Either of two words shows that a frame was begun here, even if the other one is damaged. */
      *begun = reader->frame.previous == *previous;
      return P3L_OK;
    }
    code = visitor(state, &reader->frame, reader->bytes, error);
    if (code != P3L_OK) return code;
    position->byte += sizeof(p3l_frame) + p3l_padded(reader->frame.length);
    *previous = reader->frame.checksum;
    tail->frames++;
    if (reader->frame.kind == P3L_FRAME_COMMIT) {
      log->end = *position;
      log->last = *previous;
      tail->frames = 0;
    }
  }
}

/* Invariant 1. */
static p3l_code ask_size(reader *reader, p3l_error *error) {
  reader->begin = reader->end = 0;
  int failed = reader->log->device->size(reader->log->device, &reader->size);
  if (failed == 0) return P3L_OK;
  return p3l_fail_errno(error, failed, "%s: asking for its size", reader->log->path);
}

static p3l_code scan(reader *reader, p3l_log_reading reading, p3l_frame_visitor visitor,
                     void *state, p3l_log_tail *tail, p3l_error *error) {
  p3l_lsn position = reader->log->end;
  uint32_t previous = reader->log->last;
  for (;;) {
    bool begun = false;
    p3l_code code = ask_size(reader, error);
    if (code == P3L_OK)
      code = read_frames(reader, &position, &previous, visitor, state, tail, &begun, error);
    if (code != P3L_OK) return code;
    code = look_behind(reader, position, reading == P3L_LOG_NEWS ? NEWS_BYTES : UINT64_MAX,
                       &tail->torn, error);
    tail->torn |= begun;
    if (code != P3L_CORRUPT || reading == P3L_LOG_AT_REST) return code;
    /* If the frame at the end is valid now, a writer that continued in the meantime wrote the
     * commit after it. */
    bool valid;
    p3l_error unused;
    if (ask_size(reader, &unused) != P3L_OK ||
        read_frame(reader, position, &valid, &unused) != P3L_OK || !valid ||
        reader->frame.previous != previous)
      return code;
  }
}

p3l_code p3l_log_scan(p3l_log *log, p3l_log_reading reading, p3l_frame_visitor visitor, void *state,
                      p3l_log_tail *tail, p3l_error *error) {
  *tail = (p3l_log_tail){0};
  if (log->clean) return P3L_OK;
  reader *reader = malloc(sizeof(*reader));
  if (reader == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to read the log", log->path);
  reader->log = log;
  reader->ahead = reading == P3L_LOG_NEWS ? NEWS_WINDOW : WINDOW;
  p3l_code code = scan(reader, reading, visitor, state, tail, error);
  free(reader);
  return code;
}
