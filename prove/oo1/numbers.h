/* Numbers among the arguments. */
#ifndef OO1_NUMBERS_H
#define OO1_NUMBERS_H

#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* A whole number without trailing text; ends the program otherwise. */
static inline uint64_t oo1_number(struct argp_state *state, const char *option, const char *text) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
    argp_error(state, "%s needs a whole number, not %s", option, text);
  return number;
}

#endif
