/*
 * What writing (log.c) and reading (log_read.c) the log share: where a frame is, and its checksum.
 */
#ifndef P3L_LOG_FRAME_H
#define P3L_LOG_FRAME_H

#include "log.h"

/* The bytes that follow a frame, with the zeros that fill them up. */
static inline size_t p3l_padded(size_t length) { return (length + 7) & ~(size_t)7; }

static inline uint32_t p3l_frame_checksum(const p3l_frame *frame, const uint8_t *bytes) {
  uint32_t crc = p3l_crc32c(0, (const uint8_t *)frame + sizeof(frame->checksum),
                            sizeof(*frame) - sizeof(frame->checksum));
  return p3l_crc32c(crc, bytes, frame->length);
}

/* Where the frame at a position is in the file. */
static inline p3l_file_offset p3l_log_place(const p3l_log *log, p3l_lsn position) {
  return (p3l_file_offset){P3L_LOG_FRAMES + (position.byte - log->start.byte)};
}

#endif
