/*
 * The graph file, written by the generator and read by every mode: parts in the order of their
 * ids, each with its three connections.
 */
#ifndef OO1_GRAPH_H
#define OO1_GRAPH_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "random.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OO1_TYPE_BYTES 10 /* string[10]: "part-type0" fills it, without a terminator */
#define OO1_OUT 3         /* connections out of each part */
#define OO1_PARTS_MIN 100u
#define OO1_PARTS_MAX 8000000u

typedef struct oo1_graph_connection {
  uint32_t to; /* id */
  uint32_t length;
  char type[OO1_TYPE_BYTES];
  char zero[2];
} oo1_graph_connection;

typedef struct oo1_graph_part {
  int64_t build; /* seconds since 1970 */
  uint32_t id;
  uint32_t x, y;
  char type[OO1_TYPE_BYTES];
  char zero[2];
  oo1_graph_connection out[OO1_OUT];
} oo1_graph_part;
static_assert(sizeof(oo1_graph_part) == 96, "as in the file");

typedef struct oo1_graph_header {
  char magic[16];
  uint64_t digest; /* of everything after the header, and of parts, locality, seed */
  uint64_t seed;
  uint32_t parts;
  uint32_t locality; /* 0 or 1 */
} oo1_graph_header;
static_assert(sizeof(oo1_graph_header) == 40, "as in the file");

/* A graph file, mapped. */
typedef struct oo1_graph {
  oo1_graph_header header;
  const oo1_graph_part *parts; /* [id - 1] */
  void *mapping;
  uint64_t mapped_bytes;
} oo1_graph;

/* Ends the program with a sentence if the file is not a whole graph. */
oo1_graph oo1_graph_open(const char *path);
void oo1_graph_close(oo1_graph *graph);
/* Writes one, under a temporary name until it is complete. Returns its digest. */
uint64_t oo1_graph_generate(const char *path, uint32_t parts, bool locality, uint64_t seed);

/*
 * Draws part `id` of `parts` with its connections. With locality a connection leads with
 * probability 0.9 to an id of the window: the parts / 100 closest ids around `id`, shifted
 * inwards at the ends. A part may lead to itself.
 */
void oo1_draw_part(oo1_random *random, uint32_t id, uint32_t parts, bool locality,
                   oo1_graph_part *part);
/* First id of that window; *size is its number of ids. */
uint32_t oo1_window(uint32_t id, uint32_t parts, uint32_t *size);

#ifdef __cplusplus
}
#endif

#endif
