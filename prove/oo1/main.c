/* oo1-MODE: loads a graph into a store of its mode, and runs a measure on it. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "die.h"
#include "numbers.h"
#include "report.h"
#include "run.h"

/* OO1_MODE, a C name, and OO1_MODE_NAME are the build's. */
#define PASTE(mode, layout) oo1_##mode##_##layout
#define SYMBOL(mode, layout) PASTE(mode, layout)
extern const oo1_mode SYMBOL(OO1_MODE, full);
extern const oo1_mode SYMBOL(OO1_MODE, paper);

static const oo1_mode *mode_for(const char *layout) {
  if (strcmp(layout, "oo1") == 0) return &SYMBOL(OO1_MODE, full);
  if (strcmp(layout, "paper") == 0) return &SYMBOL(OO1_MODE, paper);
  return NULL;
}

typedef struct request {
  const char *first, *second; /* operands */
  const char *layout;
  const char *graph;
  const char *digest;
  bool measure_said;
  oo1_request run;
} request;

enum {
  LAYOUT = 256,
  MEASURE,
  PROTOCOL,
  SEED,
  UNITS,
  ROUNDS,
  HOT_SET,
  DROP,
  PREFETCH,
  LIMIT,
  IN_ORDER,
  GRAPH,
  DIGEST
};

static const struct argp_option load_options[] = {
    {"layout", LAYOUT, "oo1|paper", 0, "structures of the benchmark (default), or the paper's part",
     0},
    {0}};
static const struct argp_option run_options[] = {
    {"measure", MEASURE, "MEASURE", 0, "traversal, reverse, lookup or insert", 0},
    {"protocol", PROTOCOL, "PROTOCOL", 0,
     "texas (default), oo1, figure1, figure2, figure3, hot, hot-set", 0},
    {"seed", SEED, "S", 0, "of roots and ids (default 1)", 0},
    {"units", UNITS, "N", 0, "how many; see README.md", 0},
    {"rounds", ROUNDS, "N", 0, "of protocol hot (default 5)", 0},
    {"hot-set", HOT_SET, "N", 0, "patterns of protocol hot-set (default 60)", 0},
    {"drop-cache", DROP, 0, 0, "begin with none of the store in the page cache", 0},
    {"prefetch", PREFETCH, 0, 0, "P3L: p3l_prefetch at the beginning of the first unit", 0},
    {"memory-limit", LIMIT, "BYTES", 0, "P3L: of resident objects", 0},
    {"discovery-order", IN_ORDER, 0, 0, "P3L: p3l_options.discovery_order", 0},
    {"graph", GRAPH, "GRAPH", 0, "refuse a store of another graph", 0},
    {"digest", DIGEST, "HEX", 0, "likewise, by the graph's digest", 0},
    {0}};

static void parse_measure(struct argp_state *state, request *asked, const char *argument) {
  for (int i = 0; i < 4; i++) {
    if (strcmp(oo1_measures[i], argument) != 0) continue;
    asked->run.measure = (oo1_measure)i;
    asked->measure_said = true;
    return;
  }
  argp_error(state, "--measure is traversal, reverse, lookup or insert, not %s", argument);
}

static void parse_protocol(struct argp_state *state, request *asked, const char *argument) {
  oo1_plan plan;
  if (!oo1_plan_make(argument, &(oo1_sizes){.units = 1}, &plan))
    argp_error(state, "--protocol is one of %s, not %s", oo1_protocols, argument);
  oo1_plan_free(&plan);
  asked->run.protocol = argument;
}

static uint64_t parse_size(struct argp_state *state, const char *option, const char *argument) {
  uint64_t number = oo1_number(state, option, argument);
  if (number == 0 || number > 1000000) argp_error(state, "%s is 1 to 1000000", option);
  return number;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  request *asked = state->input;
  switch (key) {
    case LAYOUT:
      if (mode_for(argument) == NULL)
        argp_error(state, "--layout is oo1 or paper, not %s", argument);
      asked->layout = argument;
      break;
    case MEASURE: parse_measure(state, asked, argument); break;
    case PROTOCOL: parse_protocol(state, asked, argument); break;
    case SEED: asked->run.sizes.seed = oo1_number(state, "--seed", argument); break;
    case UNITS: asked->run.sizes.units = parse_size(state, "--units", argument); break;
    case ROUNDS: asked->run.sizes.rounds = parse_size(state, "--rounds", argument); break;
    case HOT_SET: asked->run.sizes.hot_set = parse_size(state, "--hot-set", argument); break;
    case DROP: asked->run.drop_cache = true; break;
    case PREFETCH: asked->run.how.prefetch = true; break;
    case IN_ORDER: asked->run.how.discovery_order = true; break;
    case LIMIT: asked->run.how.memory_limit = oo1_number(state, "--memory-limit", argument); break;
    case GRAPH: asked->graph = argument; break;
    case DIGEST: asked->digest = argument; break;
    case ARGP_KEY_ARG:
      if (asked->first == NULL)
        asked->first = argument;
      else if (asked->second == NULL)
        asked->second = argument;
      else
        argp_error(state, "%s is one operand too many", argument);
      break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static void load(int count, char **arguments) {
  request asked = {.layout = "oo1"};
  const struct argp parser = {
      load_options, parse, "GRAPH STORE", "Loads a graph into a new store, a folder.",
      NULL,         NULL,  NULL};
  argp_parse(&parser, count, arguments, 0, NULL, &asked);
  if (asked.second == NULL) oo1_die("load needs GRAPH and STORE\n  remedy: see --help");
  oo1_graph graph = oo1_graph_open(asked.first);
  if (mkdir(asked.second, 0777) != 0)
    oo1_die("store %s cannot be made: %s\n  remedy: name a folder that is not there yet",
            asked.second, strerror(errno));
  uint64_t before = oo1_clock(CLOCK_MONOTONIC);
  mode_for(asked.layout)->load(&graph, asked.second);
  oo1_description description = {
      .parts = graph.header.parts,
      .locality = graph.header.locality != 0,
      .graph_seed = graph.header.seed,
      .digest = graph.header.digest,
      .load_seconds = (double)(oo1_clock(CLOCK_MONOTONIC) - before) / 1e9,
  };
  snprintf(description.mode, sizeof description.mode, "%s", OO1_MODE_NAME);
  snprintf(description.layout, sizeof description.layout, "%s", asked.layout);
  oo1_describe(asked.second, &description);
  oo1_report_load(&description, oo1_folder_bytes(asked.second));
  oo1_graph_close(&graph);
}

static void check(const request *asked, const oo1_description *description, const oo1_mode **mode) {
  if (strcmp(description->mode, OO1_MODE_NAME) != 0)
    oo1_die("store %s is of mode %s, not %s\n  remedy: oo1-%s run, or load another", asked->first,
            description->mode, OO1_MODE_NAME, description->mode);
  *mode = mode_for(description->layout);
  if (*mode == NULL)
    oo1_die("store %s has layout %s, which this program does not know\n  remedy: load it again",
            asked->first, description->layout);
  uint64_t digest = description->digest;
  if (asked->digest != NULL) digest = strtoull(asked->digest, NULL, 16);
  if (asked->graph != NULL) {
    oo1_graph graph = oo1_graph_open(asked->graph);
    digest = graph.header.digest;
    oo1_graph_close(&graph);
  }
  if (digest != description->digest)
    oo1_die("store %s was made for another graph, %016lx, not %016lx\n  remedy: load it again",
            asked->first, description->digest, digest);
  if (asked->run.measure == OO1_REVERSE && (*mode)->timed.reverse == NULL)
    oo1_die("layout %s has no way back\n  remedy: load with --layout oo1", description->layout);
  if (asked->run.how.prefetch && !(*mode)->can_prefetch)
    oo1_die("mode %s cannot prefetch\n  remedy: leave --prefetch out", OO1_MODE_NAME);
  if (asked->run.how.discovery_order && !(*mode)->can_prefetch)
    oo1_die("mode %s does not move objects\n  remedy: leave --discovery-order out", OO1_MODE_NAME);
  if (asked->run.how.memory_limit != 0 && !(*mode)->can_limit)
    oo1_die("mode %s has no memory limit of its own\n  remedy: a control group has", OO1_MODE_NAME);
}

static void run(int count, char **arguments) {
  request asked = {.run = {.protocol = "texas", .sizes = {.seed = 1}}};
  const struct argp parser = {run_options, parse, "STORE", "Runs a measure on a store.",
                              NULL,        NULL,  NULL};
  argp_parse(&parser, count, arguments, 0, NULL, &asked);
  if (asked.first == NULL || asked.second != NULL || !asked.measure_said)
    oo1_die("run needs one STORE and --measure\n  remedy: see --help");
  asked.run.how.writable = asked.run.measure == OO1_INSERT;
  oo1_description description = oo1_description_of(asked.first);
  const oo1_mode *mode = NULL;
  check(&asked, &description, &mode);
  oo1_result result;
  oo1_report *report = oo1_report_new();
  oo1_run(mode, asked.first, &description, &asked.run, oo1_report_add, report, &result);
  oo1_report_run(report, mode, &description, &asked.run, &result);
}

int main(int count, char **arguments) {
  argp_err_exit_status = 1;
  const char *command = count > 1 ? arguments[1] : "";
  if (count > 1) arguments[1] = oo1_format("oo1-%s %s", OO1_MODE_NAME, command); /* for argp */
  if (strcmp(command, "load") == 0)
    load(count - 1, arguments + 1);
  else if (strcmp(command, "run") == 0)
    run(count - 1, arguments + 1);
  else if (strcmp(command, "describe") == 0)
    oo1_report_mode(OO1_MODE_NAME, mode_for("oo1"));
  else
    oo1_die(
        "%s is not a command\n  remedy: load GRAPH STORE, run STORE --measure MEASURE, describe",
        *command != '\0' ? command : "nothing");
  return 0;
}
