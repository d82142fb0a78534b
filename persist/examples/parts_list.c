/* parts_list STORE: the bicycle of bom.cpp, by a C program. */
#include <stdio.h>

#include <p3l.h>

struct use;

struct part {
  char name[24];
  int64_t cents;
  struct use *uses;
};

struct use {
  struct part *what;
  int64_t pieces;
  struct use *next;
};

P3L_TYPE(part, struct part, 1, P3L_POINTERS(struct part, uses));
P3L_TYPE(use, struct use, 1, P3L_POINTERS(struct use, what), P3L_POINTERS(struct use, next));

static void print(struct part *whole, long long pieces, int depth) {
  printf("%*s%lld %s\n", 2 * depth, "", pieces, whole->name);
  for (struct use *u = P3L_LD(whole->uses); u; u = P3L_LD(u->next))
    print(P3L_LD(u->what), u->pieces, depth + 1);
}

int main(int argc, char **argv) {
  p3l_error error;
  p3l_store *store;
  if (argc != 2) return fprintf(stderr, "parts_list STORE\n"), 2;
  if (p3l_open(argv[1], &(p3l_options){.read_only = true}, &store, &error) != P3L_OK)
    return fprintf(stderr, "parts_list: %s\n", error.message), 1;
  struct part *bicycle = p3l_root(store, "bicycle");
  if (bicycle) print(bicycle, 1, 0);
  p3l_close(store, NULL);
  return 0;
}
