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

/* A pointer of a described union is a field of no slots; one that all arms have is as ever. */
struct mixed {
  long kind;
  union {
    link pointer;
    long number;
  } is;
  link next;
};
static uint32_t live(const void *object, size_t element) {
  return ((const struct mixed *)object)[element].kind == 1;
}
P3L_PERSISTENT_UNIONS(mixed, struct mixed, 1, NULL,
                      P3L_UNIONS(P3L_UNION(struct mixed, is, live, P3L_PLAIN_ARM,
                                           P3L_ARM(struct mixed, is, is.pointer))));

P3L_UNCHECKED void p3l_register_unions(const p3l_type *type, const p3l_union *unions) {
  printf("%s: version %u, %u bytes\n", type->name, type->version, type->bytes);
  for (const p3l_field *field = type->pointers; field->name != NULL; field++)
    printf("  %s: %u slots at %u\n", field->name, field->count, field->offset);
  for (; unions != NULL && unions->name != NULL; unions++)
    printf("  union %s: %u bytes at %u, arms %d and %d\n", unions->name, unions->bytes,
           unions->offset, (int)unions->arms[0], (int)unions->arms[1]);
}

int main(void) { return 0; }
