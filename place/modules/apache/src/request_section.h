/*
 * The section of this thread's request.
 *
 * Invariants:
 *   - All state is thread-local. A request that continues on another thread (event MPM) has ended
 *     here.
 *   - A request is identified by its address, only while its section is open; callers dereference
 *     it only if it exists. (A connection's number does not identify it: in the event MPM it
 *     changes between the requests of one connection.)
 *   - A thread works on one request at a time. Subrequests and internal redirects belong to the request that caused them.
 */
#ifndef MOD_SPLIT_REQUEST_SECTION_H
#define MOD_SPLIT_REQUEST_SECTION_H

#include <httpd.h>

#include <stdbool.h>

/* Begins a request, whose kind is not known yet. A section still open belongs to a request that
 * was not ended: it is dropped. `origin`: the id from a front server, or NULL. */
void section_begin(request_rec *request, const char *origin);

bool section_is_of(const request_rec *request);
bool section_is_on(const conn_rec *connection);
request_rec *section_request(void);

void section_set_kind(const char *key);
bool section_has_kind(void);

/* This many bytes are about to be sent to the client; UNKNOWN if the number is not known. */
#define SECTION_BYTES_UNKNOWN ((apr_off_t)-1)
void section_sends(apr_off_t bytes);

/* Ends the section: it is counted if its kind is known. No effect without a section. */
void section_end(void);

#endif
