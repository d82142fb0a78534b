/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the lexer of ground/statement needs of libc and Valgrind's core does not have.
 */
#include <stddef.h>

void *memchr(const void *bytes, int wanted, size_t length);
int memcmp(const void *first, const void *second, size_t length);

void *memchr(const void *bytes, int wanted, size_t length) {
  const unsigned char *at = bytes;
  for (; length > 0; length--, at++)
    if (*at == (unsigned char)wanted) return (void *)at;
  return NULL;
}

int memcmp(const void *first, const void *second, size_t length) {
  const unsigned char *a = first, *b = second;
  for (; length > 0; length--, a++, b++)
    if (*a != *b) return *a < *b ? -1 : 1;
  return 0;
}
