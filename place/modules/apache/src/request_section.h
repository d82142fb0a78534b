/*
 * The section of the request that this thread works on.
 *
 * Invariants:
 *   - All state is the thread's own. A request that goes on elsewhere (event MPM) is over here; nobody else ever looks at our section.
 *   - A request is known by its address, and only while its section is open: it is compared, and followed only by who knows that it
 *     lives. (A connection's number is no name for it: in the event MPM it changes between the requests of one connection.)
 *   - A thread works on one request at a time. Subrequests and internal redirects belong to the request that caused them.
 */
#ifndef MOD_SPLIT_REQUEST_SECTION_H
#define MOD_SPLIT_REQUEST_SECTION_H

#include <httpd.h>

#include <stdbool.h>

/* A request begins; its kind is not known yet. A section that is still open is of a request that nobody ended: it is dropped.
 * `origin`: the id that a front server gave it, or NULL. */
void section_begin(request_rec *request, const char *origin);

bool section_is_of(const request_rec *request);
bool section_is_on(const conn_rec *connection);
request_rec *section_request(void);

void section_set_kind(const char *key);
bool section_has_kind(void);

/* So many bytes are about to be sent to the client; UNKNOWN: nobody knows how many. */
#define SECTION_BYTES_UNKNOWN ((apr_off_t)-1)
void section_sends(apr_off_t bytes);

/* The section is over: counted if its kind is known. Nothing happens if there is none. */
void section_end(void);

#endif
