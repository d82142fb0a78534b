/* Keys of requests: the text by which requests are counted as one kind. */
#ifndef MOD_SPLIT_KEYS_H
#define MOD_SPLIT_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum key_choice {
  KEY_UNSET = 0,
  KEY_SCRIPT, /* the file that answers: /srv/www/SearchItems.php; of an entry script with its page (pages.h) */
  KEY_URL,    /* the URL's path, without its arguments: /SearchItems.php */
  KEY_PATTERN /* the path without ids: /items/1234/bids becomes /items/<id>/bids */
};

/* Room for the pattern of a path. */
enum { KEY_PATTERN_MOST = 1024 };

/* True if the script answers for addresses other than its own: it is a folder's index, or the path ends in another name than its file's
 * (rewritten to it, or with a part behind the script). */
bool key_is_entry(const char *path, const char *file);

/* Writes the pattern of a URL's path, zero-terminated, and returns its length, less than `size`.
 * An id is a segment with a digit and otherwise only hexadecimal digits and dashes, or one of
 * more than 32 bytes; a suffix after a last dot is kept. Paths of more than 8 segments and
 * patterns that do not fit are truncated: the distinguishing part is at the front. */
size_t key_pattern(const char *path, char *pattern, size_t size);

#endif
