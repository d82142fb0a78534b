#include "request_section.h"

#include "split.h"

#include <string.h>

/* From this size on a response may have to wait for its client. It is the core output filter's
 * limit on data that it sets aside without blocking (THRESHOLD_MAX_BUFFER). Smaller responses
 * always fit: a socket's initial send buffer is at least as large. */
#define BYTES_WITHOUT_WAITING 65536

static _Thread_local struct {
  request_rec *request; /* NULL: no section */
  const conn_rec *connection;
  apr_off_t bytes;
  bool has_kind, paused;
  split_section section;
} current;

void section_begin(request_rec *request, const char *origin) {
  if (current.request) split_cancel(&current.section);
  current.request = request;
  current.connection = request->connection;
  current.bytes = 0;
  current.has_kind = current.paused = false;
  split_begin(&current.section, SPLIT_CODE_NONE, NULL, 0);
  if (origin)
    split_note_section(&current.section, SPLIT_NOTE_ORIGIN, origin,
                       strnlen(origin, SPLIT_ORIGIN_LENGTH));
}

bool section_is_of(const request_rec *request) {
  return current.request == request && request != NULL;
}

bool section_is_on(const conn_rec *connection) {
  return current.request != NULL && current.connection == connection;
}

request_rec *section_request(void) { return current.request; }

void section_set_kind(const char *key) {
  current.has_kind = true;
  split_note_section(&current.section, SPLIT_NOTE_KEY, key, strnlen(key, SPLIT_KEY_LENGTH));
}

bool section_has_kind(void) { return current.has_kind; }

void section_sends(apr_off_t bytes) {
  if (current.paused) return;
  if (bytes != SECTION_BYTES_UNKNOWN) current.bytes += bytes;
  if (bytes != SECTION_BYTES_UNKNOWN && current.bytes <= BYTES_WITHOUT_WAITING) return;
  current.paused = true;
  split_pause(&current.section);
}

void section_end(void) {
  if (!current.request) return;
  if (current.has_kind)
    split_finish(&current.section);
  else
    split_cancel(&current.section);
  current.request = NULL;
}
