/* oo1-generate: generates the graph that all modes load. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "numbers.h"

typedef struct request {
  uint64_t parts, seed;
  int locality; /* -1: not said */
  const char *path;
} request;

static const struct argp_option options[] = {
    {"parts", 'n', "N", 0, "parts of the graph, 100 to 8000000", 0},
    {"locality", 'l', "yes|no", 0, "whether nine of ten connections lead to a nearby part", 0},
    {"seed", 's', "S", 0, "same seed, same graph (default 1)", 0},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
  request *asked = state->input;
  switch (key) {
    case 'n': asked->parts = oo1_number(state, "--parts", argument); break;
    case 's': asked->seed = oo1_number(state, "--seed", argument); break;
    case 'l':
      if (strcmp(argument, "yes") != 0 && strcmp(argument, "no") != 0)
        argp_error(state, "--locality is yes or no, not %s", argument);
      asked->locality = strcmp(argument, "yes") == 0;
      break;
    case ARGP_KEY_ARG:
      if (asked->path != NULL) argp_error(state, "one graph at a time");
      asked->path = argument;
      break;
    case ARGP_KEY_END:
      if (asked->path == NULL) argp_error(state, "where to? (GRAPH)");
      if (asked->locality < 0) argp_error(state, "--locality is missing");
      if (asked->parts < OO1_PARTS_MIN || asked->parts > OO1_PARTS_MAX)
        argp_error(state, "--parts is %u to %u", OO1_PARTS_MIN, OO1_PARTS_MAX);
      break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

int main(int count, char **arguments) {
  request asked = {.locality = -1, .seed = 1};
  const struct argp parser = {options, parse, "GRAPH", "Makes a graph for the OO1 benchmark.",
                              NULL,    NULL,  NULL};
  argp_err_exit_status = 2;
  argp_parse(&parser, count, arguments, 0, NULL, &asked);
  uint64_t digest =
      oo1_graph_generate(asked.path, (uint32_t)asked.parts, asked.locality == 1, asked.seed);
  printf("{\"parts\": %" PRIu64 ", \"connections\": %" PRIu64
         ", \"locality\": %s, \"graph_seed\": %" PRIu64 ", \"graph\": \"%016" PRIx64 "\"}\n",
         asked.parts, asked.parts * OO1_OUT, asked.locality ? "true" : "false", asked.seed, digest);
  return 0;
}
