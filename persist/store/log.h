/*
 * The redo log: the changes of committed transactions since the last checkpoint.
 *
 *   0     512   1024  1536   4096                                              end
 *   +-----+-----+-----+-----+-------+-------+-------+--------+-------+-- ... --+- - - - - - - -
 *   |  A  |  A  |  B  |  B  | image | range | range | commit |changes|  commit | of before
 *   +-----+-----+-----+-----+-------+-------+-------+--------+-------+-- ... --+- - - - - - - -
 *   two headers, twice each          transaction 1            transaction 2
 *
 * Invariants:
 *  1. A frame is valid if its checksum is right, and if it contains its own position in the log and
 *     the checksum of the frame before it (the first frame: that of the header). So a frame left
 *     over from an earlier round, or from a transaction that failed at the same place, is never
 *     mistaken for a part of a later transaction.
 *  2. A transaction is committed if its commit frame and all frames since the previous commit are
 *     valid. So frames may be written before it is certain that the transaction commits, and
 *     overwritten if it does not.
 *  3. A page's first change after a checkpoint is logged as its whole image, or as all of it that is
 *     not zero (delta.h). So if a crash tears a write of that page to the file, recovery restores it
 *     from the log.
 *  4. The log is reset only after the checkpoint's pages are synced; its frames are not overwritten
 *     before the reset is synced. The valid header with the higher round is in force, and a reset
 *     writes the other one. Each header exists twice, because a damaged header must not bring the
 *     previous round back, which would lose the frames of the current one. After a reset that fails
 *     at an unknown point nothing more is written (P3L_BROKEN).
 *  5. A log that was closed in order is marked (`clean`): its round has no frames, so readers do
 *     not search for any. The first append begins a round without the mark. Both become durable
 *     with the same sync, and no commit is reported before.
 *  6. A commit frame contains the position up to which the log was known to be on stable storage.
 *     An invalid frame below that position is not a torn tail but damage, and is reported as
 *     damage.
 *
 * Version 1 of the format has ranges and no changes. A log of version 1 is read; it becomes one of
 * version 2 when its next round begins.
 */
#ifndef P3L_LOG_H
#define P3L_LOG_H

#include "delta.h"
#include "device.h"
#include "page.h"

typedef enum p3l_frame_kind {
  P3L_FRAME_IMAGE = 1,
  P3L_FRAME_RANGE = 2, /* of version 1; read only */
  P3L_FRAME_COMMIT = 3,
  P3L_FRAME_CHANGES = 4 /* changes of many pages: delta.h */
} p3l_frame_kind;

/* Followed by `length` bytes, padded with zeros to a multiple of eight. */
typedef struct p3l_frame {
  uint32_t checksum; /* crc32c of the rest of the frame and its bytes */
  uint32_t previous; /* checksum of the previous frame: invariant 1 */
  uint16_t kind;
  uint16_t zero;
  uint32_t length;   /* image: a page; range: within one page; changes: up to a page; commit: 0 */
  uint64_t position; /* position in the log: invariant 1 */
  uint64_t address;  /* image, range: of the first byte; changes: of the first page; commit: end
                        of the durable log (invariant 6) */
} p3l_frame;
_Static_assert(sizeof(p3l_frame) == 32, "no padding in the log");

/* Version of the log's own format. The version of the store's format is in its header page. */
#define P3L_LOG_VERSION 2u
#define P3L_OLDEST_LOG_VERSION 1u
#define P3L_LOG_FRAMES 4096u /* where frames begin in the file */

typedef struct p3l_log {
  p3l_device *device;
  const char *path;
  uint8_t store_id[16];
  uint16_t version; /* of the header in force, as the following */
  uint64_t round;
  p3l_lsn start;   /* position of the byte at P3L_LOG_FRAMES */
  p3l_lsn end;     /* where the next frame goes */
  p3l_lsn durable; /* everything below is on stable storage */
  uint32_t last;   /* checksum of the frame that ends at `end`, or of the header */
  bool clean;      /* invariant 5 */
} p3l_log;

/* Writes the header of an empty log and syncs it. */
p3l_code p3l_log_create(p3l_device *device, const char *path, const uint8_t store_id[16],
                        p3l_error *error);
/* Reads the headers. The log's end is known only after p3l_log_scan(). */
p3l_code p3l_log_open(p3l_log *log, p3l_device *device, const char *path,
                      const uint8_t store_id[16], p3l_error *error);

/* What a scan found after the last commit: traces of transactions that a crash interrupted. */
typedef struct p3l_log_tail {
  uint64_t frames; /* valid frames without a commit */
  bool torn;       /* followed by an invalid frame that was once begun */
} p3l_log_tail;

/* Called for each valid frame in order. A frame's bytes are valid during the call only. */
typedef p3l_code (*p3l_frame_visitor)(void *state, const p3l_frame *frame, const uint8_t *bytes,
                                      p3l_error *error);
typedef enum p3l_log_reading {
  P3L_LOG_AT_REST, /* no process writes to the log */
  P3L_LOG_LIVE,    /* a process may write: bytes after the end may become frames while it is read */
  P3L_LOG_NEWS /* the same, and it was read before: checks only 32 KB after its end for damage */
} p3l_log_reading;

/*
 * Reads from log->end on, which is the start after p3l_log_open(), and sets log->end after the last
 * commit. Damage (invariant 6) is P3L_CORRUPT, because the log may then be incomplete.
 */
p3l_code p3l_log_scan(p3l_log *log, p3l_log_reading reading, p3l_frame_visitor visitor, void *state,
                      p3l_log_tail *tail, p3l_error *error);

/* Records the position of the last checkpoint for which pages were kept (old_pages.h); 0: none.
 * Does not sync. */
p3l_code p3l_log_announce(p3l_log *log, p3l_lsn position, p3l_error *error);
p3l_lsn p3l_log_announced(const p3l_log *log);

/*
 * Frames under construction. One write appends them to the log, or two with p3l_log_write_early().
 * Pages are not copied: they are 120 KB of an OO1 Insert's 140 KB.
 *
 *   bytes   | head | head | changes | head | ... | commit |
 *   parts   |-- 0 -|-- 2 -|------- 4 ------|- 6 ... ------|     bytes between two pages, then a page
 *   pages        1     3                5
 *
 * Changes of pages are collected and become one frame when there are many, or before another frame.
 */
typedef struct p3l_frames {
  uint8_t *bytes; /* everything except the pages */
  size_t used, capacity;
  struct iovec *parts; /* in the order of writing; those in `bytes` get their bases then */
  size_t part_count, part_capacity;
  size_t length;   /* of all frames */
  size_t written;  /* of that: p3l_log_write_early(), and then in `parts` no more */
  uint64_t images; /* number of pages that are among them whole */
  uint64_t image_bytes, old_image_bytes; /* of the log, of these, and of those of them that a
                                            checkpoint wrote before */
  uint32_t last;                         /* checksum of the last one */
  p3l_delta delta;                       /* changes that are no frame yet */
} p3l_frames;

void p3l_frames_clear(p3l_frames *frames); /* keeps the memory */
void p3l_frames_free(p3l_frames *frames);
/* After P3L_NO_MEMORY the frames are unchanged. The bytes of an image must stay unchanged until
 * it is appended. */
p3l_code p3l_frames_add(p3l_frames *frames, const p3l_log *log, p3l_frame_kind kind,
                        p3l_address address, const void *bytes, uint32_t length, p3l_error *error);
/* Changes of a page, as p3l_delta_add(). *added: they are not longer than the page's image, or there is
 * `before`; otherwise nothing was added. */
p3l_code p3l_frames_add_changes(p3l_frames *frames, const p3l_log *log, p3l_page_number number,
                                const p3l_page *now, const p3l_page *before, uint64_t units,
                                bool *added, p3l_error *error);
/* Bytes of the frames, with the changes that are no frame yet. */
size_t p3l_frames_length(const p3l_frames *frames);
p3l_code p3l_frames_add_commit(p3l_frames *frames, const p3l_log *log, p3l_error *error);

/* Writes the frames made so far after the end of the log, where they are ignored until the rest
 * is appended. So the disk can start early. */
p3l_code p3l_log_write_early(p3l_log *log, p3l_frames *frames, p3l_error *error);

/* Must be called before frames are made for an append: removes the mark `clean` of invariant 5, and
 * begins a round of the current version, if the log is empty. */
p3l_code p3l_log_disturb(p3l_log *log, p3l_error *error);
/* Appends the frames. On failure the log is unchanged: the bytes written lie after its end. Does
 * not sync. */
p3l_code p3l_log_append(p3l_log *log, p3l_frames *frames, p3l_error *error);

/* Removes all frames; see invariant 4. The caller has synced the pages. `clean`: no append will
 * follow, see invariant 5. */
p3l_code p3l_log_reset(p3l_log *log, bool clean, p3l_error *error);

#endif
