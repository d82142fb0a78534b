/* Prints the types that P3L_PERSISTENT describes; types.sh compares the output with the comment
 * at the end. */
#include <stdio.h>

#include "p3l_qualifier.h"

typedef struct part persistent *link;
struct entry {
  long key;
  link value;
};
struct part {
  uint32_t id;
  unsigned kind : 3;
  link to[3];
  struct entry entries[2];
  link next;
  struct entry one;
  union {
    link first, second;
  };
  double weight;
  char letter, name[10];
  void (*function)(int); /* nothing persistent */
  link grid[2][2];
#ifdef MIXED_UNION
  union {
    link pointer;
    long number;
  } either;
#endif
#ifdef PLAIN_POINTER
  char *plain;
#endif
#ifdef UNKNOWN_LENGTH
  link rest[];
#endif
};
P3L_PERSISTENT(part, struct part, 2);

struct leaf {
  int number;
};
P3L_PERSISTENT(leaf, struct leaf, 1);

P3L_UNCHECKED void p3l_register_type(const p3l_type *type) {
  printf("%s: version %u, %u bytes\n", type->name, type->version, type->bytes);
  for (const p3l_field *field = type->pointers; field->name != NULL; field++)
    printf("  %s: %u slots at %u\n", field->name, field->count, field->offset);
}

int main(void) { return 0; }
