/*
 * What tells kinds of requests apart: the text under which a request is counted.
 */
#ifndef MOD_SPLIT_KEYS_H
#define MOD_SPLIT_KEYS_H

#include <stddef.h>

enum key_choice {
  KEY_UNSET = 0,
  KEY_SCRIPT, /* the file that answers: /srv/www/SearchItems.php */
  KEY_URL,    /* the URL's path, without its arguments: /SearchItems.php */
  KEY_PATTERN /* the same with its ids taken out: /items/1234/bids is /items/<id>/bids */
};

/* Writes the pattern of a URL's path, ended by a zero byte, and returns its length, less than `size`. An id is a segment that has a
 * digit and otherwise only hexadecimal digits and dashes, or one of more than 32 bytes; what follows a last dot stays. Paths of more
 * than 8 segments, and patterns that do not fit, are cut: what tells requests apart stands at the front. */
size_t key_pattern(const char *path, char *pattern, size_t size);

#endif
