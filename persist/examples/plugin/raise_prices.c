/* raise_prices STORE PERCENT: all parts of the bicycle of bom.cpp, by a C program with the plugin. */
#include <stdio.h>
#include <stdlib.h>

#include <p3l_qualifier.h>

struct use;

struct part {
  char name[24];
  int64_t cents;
  struct use persistent *uses;
};

struct use {
  struct part persistent *what;
  int64_t pieces;
  struct use persistent *next;
};

P3L_PERSISTENT(part, struct part, 1);
P3L_PERSISTENT(use, struct use, 1);

static void raise_prices(struct part persistent *whole, int percent) {
  whole->cents += whole->cents * percent / 100;
  for (struct use persistent *u = whole->uses; u; u = u->next) raise_prices(u->what, percent);
}

int main(int argc, char **argv) {
  p3l_error error;
  p3l_store *store;
  if (argc != 3) return fprintf(stderr, "raise_prices STORE PERCENT\n"), 2;
  if (p3l_open(argv[1], NULL, &store, &error) != P3L_OK || p3l_begin(store, &error) != P3L_OK)
    return fprintf(stderr, "raise_prices: %s\n", error.message), 1;
  struct part persistent *bicycle = p3l_root(store, "bicycle");
  raise_prices(bicycle, atoi(argv[2]));
  if (p3l_commit(store, &error) != P3L_OK || p3l_close(store, &error) != P3L_OK)
    return fprintf(stderr, "raise_prices: %s\n", error.message), 1;
  return 0;
}
