/* oo7-MODE: creates OO7's small database in a store of its mode, and runs a traversal on it. */
#include <argp.h>
#include <cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "die.h"
#include "folder.h"
#include "json.h"
#include "mode.h"
#include "numbers.h"
#include "usage.h"

static const char *const names[OO7_TRAVERSALS] = {"T1", "T2a", "T6"};

/* Independent of the seed: 20 atomic parts in 500 composite parts. */
enum { ATOMIC_PARTS = 10000, MOST_HOT = 100000 };

typedef struct request {
  const char *store;
  int traversal; /* -1: not given */
  uint64_t seed, hot;
  bool drop_cache, prefetch;
} request;

typedef struct times {
  uint64_t *wall, *cpu;
  size_t count;
} times;

enum { TRAVERSAL = 256, SEED, HOT, DROP, PREFETCH };
static const struct argp_option load_options[] = {
    {"seed", SEED, "S", 0, "the database is drawn from it (default 1)", 0}, {0}};
static const struct argp_option run_options[] = {
    {"traversal", TRAVERSAL, "T", 0, "T1, T2a or T6", 0},
    {"hot", HOT, "N", 0, "how often again after the first, cold time (default 10)", 0},
    {"drop-cache", DROP, 0, 0, "begin with none of the store in the page cache", 0},
    {"prefetch", PREFETCH, 0, 0, "P3L: p3l_prefetch before the first time, within it", 0},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
  request *asked = state->input;
  switch (key) {
    case TRAVERSAL:
      for (int i = 0; i < OO7_TRAVERSALS; i++)
        if (strcmp(names[i], argument) == 0) asked->traversal = i;
      if (asked->traversal < 0) argp_error(state, "--traversal is T1, T2a or T6, not %s", argument);
      break;
    case SEED: asked->seed = oo1_number(state, "--seed", argument); break;
    case HOT:
      asked->hot = oo1_number(state, "--hot", argument);
      if (asked->hot > MOST_HOT) argp_error(state, "--hot is at most %d", MOST_HOT);
      break;
    case DROP: asked->drop_cache = true; break;
    case PREFETCH: asked->prefetch = true; break;
    case ARGP_KEY_ARG:
      if (asked->store != NULL) argp_error(state, "%s is one operand too many", argument);
      asked->store = argument;
      break;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which STORE?"); break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

/* ---- output ---- */

static void add_phase(cJSON *phases, const char *name, const times *times, size_t from, size_t to) {
  cJSON *phase = cJSON_CreateObject(), *wall, *cpu;
  cJSON_AddItemToArray(phases, phase);
  cJSON_AddStringToObject(phase, "name", name);
  cJSON_AddNumberToObject(phase, "repeats", 1);
  wall = cJSON_AddArrayToObject(phase, "wall_ns");
  cpu = cJSON_AddArrayToObject(phase, "cpu_ns");
  for (; from < to; from++) {
    cJSON_AddItemToArray(wall, cJSON_CreateNumber((double)times->wall[from]));
    cJSON_AddItemToArray(cpu, cJSON_CreateNumber((double)times->cpu[from]));
  }
}

static void add_statistic(void *object, const char *name, double value) {
  cJSON_AddNumberToObject(object, name, value);
}

static cJSON *begin(const oo1_description *description) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "benchmark", "oo7");
  cJSON_AddStringToObject(object, "mode", oo7_this_mode.name);
  cJSON_AddStringToObject(object, "compiler", oo7_this_mode.compiler);
  cJSON_AddStringToObject(object, "layout", description->layout);
  cJSON_AddNumberToObject(object, "atomic_parts", description->parts);
  oo1_json_whole(object, "graph_seed", description->graph_seed);
  cJSON_AddNumberToObject(object, "load_seconds", description->load_seconds);
  return object;
}

/* ---- load ---- */

static void load(int count, char **arguments) {
  request asked = {.seed = 1};
  const struct argp parser = {
      load_options, parse, "STORE", "Makes the database in a new store, a folder.",
      NULL,         NULL,  NULL};
  argp_parse(&parser, count, arguments, 0, NULL, &asked);
  if (mkdir(asked.store, 0777) != 0)
    oo1_die("store %s cannot be made: %s\n  remedy: name a folder that is not there yet",
            asked.store, strerror(errno));
  uint64_t before = oo1_clock(CLOCK_MONOTONIC);
  oo7_this_mode.load(asked.store, asked.seed);
  oo1_description description = {.parts = ATOMIC_PARTS, .graph_seed = asked.seed};
  description.load_seconds = (double)(oo1_clock(CLOCK_MONOTONIC) - before) / 1e9;
  snprintf(description.mode, sizeof description.mode, "oo7-%s", oo7_this_mode.name);
  snprintf(description.layout, sizeof description.layout, "small");
  oo1_describe(asked.store, &description);
  cJSON *object = begin(&description);
  oo1_json_whole(object, "store_bytes", oo1_folder_bytes(asked.store));
  oo1_json_print(object);
}

/* ---- run ---- */

static oo1_description description_of(const char *store) {
  oo1_description description = oo1_description_of(store);
  char mode[sizeof description.mode];
  snprintf(mode, sizeof mode, "oo7-%s", oo7_this_mode.name);
  if (strcmp(description.mode, mode) != 0)
    oo1_die("store %s is of mode %s, not %s\n  remedy: load another", store, description.mode,
            mode);
  return description;
}

static times run_all(const request *asked, uint64_t *visited) {
  times taken = {oo1_allocate((asked->hot + 1) * sizeof(uint64_t)),
                 oo1_allocate((asked->hot + 1) * sizeof(uint64_t)), 0};
  for (; taken.count <= asked->hot; taken.count++) {
    uint64_t cpu = oo1_clock(CLOCK_PROCESS_CPUTIME_ID), wall = oo1_clock(CLOCK_MONOTONIC);
    *visited =
        oo7_this_mode.run((oo7_traversal)asked->traversal, asked->prefetch && taken.count == 0);
    taken.wall[taken.count] = oo1_clock(CLOCK_MONOTONIC) - wall;
    taken.cpu[taken.count] = oo1_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  }
  return taken;
}

static void add_usage(cJSON *object, const oo1_usage *before) {
  oo1_usage now = oo1_usage_now();
  cJSON *faults = cJSON_AddObjectToObject(object, "faults");
  oo1_json_whole(faults, "minor", now.minor_faults - before->minor_faults);
  oo1_json_whole(faults, "major", now.major_faults - before->major_faults);
  oo1_json_whole(faults, "handled", oo7_this_mode.faults_handled());
  cJSON *reads = cJSON_AddObjectToObject(object, "reads");
  oo1_json_whole(reads, "calls", now.read_calls - before->read_calls);
  oo1_json_whole(reads, "bytes", now.read_bytes - before->read_bytes);
  uint64_t resident, peak;
  oo1_memory_now(&resident, &peak);
  oo1_json_whole(object, "rss_bytes", resident);
  oo1_json_whole(object, "rss_peak_bytes", peak);
  oo1_json_whole(object, "bytes_logged", oo7_this_mode.bytes_logged());
  oo7_this_mode.statistics(add_statistic, cJSON_AddObjectToObject(object, "statistics"));
}

static void run(int count, char **arguments) {
  request asked = {.traversal = -1, .hot = 10};
  const struct argp parser = {run_options, parse, "STORE", "Runs a traversal on a store.",
                              NULL,        NULL,  NULL};
  argp_parse(&parser, count, arguments, 0, NULL, &asked);
  if (asked.traversal < 0) oo1_die("run needs --traversal\n  remedy: --traversal T1, T2a or T6");
  if (asked.prefetch && !oo7_this_mode.can_prefetch)
    oo1_die("mode %s cannot prefetch\n  remedy: leave --prefetch out", oo7_this_mode.name);
  oo1_description description = description_of(asked.store);
  cJSON *object = begin(&description);
  cJSON_AddStringToObject(object, "traversal", names[asked.traversal]);
  oo1_json_whole(object, "store_bytes", oo1_folder_bytes(asked.store));

  /* Traversals that change the database use a copy. */
  bool changes = asked.traversal == OO7_T2A;
  char *copy = changes ? oo1_format("%s.copy.%d", asked.store, (int)getpid()) : NULL;
  const char *folder = changes ? copy : asked.store;
  if (changes) oo1_folder_copy(asked.store, copy);
  cJSON *cache = cJSON_AddObjectToObject(object, "cache");
  cJSON_AddStringToObject(cache, "state", asked.drop_cache ? "dropped" : "hot");
  if (asked.drop_cache)
    oo1_json_whole(cache, "resident_bytes", oo1_folder_drop(folder));
  else
    oo1_folder_warm(folder);
  cJSON_AddBoolToObject(object, "prefetch", asked.prefetch);

  uint64_t before = oo1_clock(CLOCK_MONOTONIC), visited = 0;
  oo7_this_mode.open(folder, changes);
  oo1_json_whole(object, "open_ns", oo1_clock(CLOCK_MONOTONIC) - before);
  oo1_usage usage = oo1_usage_now();
  times taken = run_all(&asked, &visited);
  cJSON *phases = cJSON_AddArrayToObject(object, "phases");
  add_phase(phases, "cold", &taken, 0, 1);
  add_phase(phases, "hot", &taken, 1, taken.count);
  add_usage(object, &usage);

  if (changes) { /* check what another process would read */
    oo7_this_mode.close();
    oo7_this_mode.open(folder, false);
  }
  oo7_this_mode.look((oo7_traversal)asked.traversal);
  oo7_this_mode.close();
  if (changes) oo1_folder_remove(copy);
  if (oo7_seen.visited != visited)
    oo1_die("a timed traversal visited %" PRIu64 " atomic parts, and the one that looks %" PRIu64,
            visited, oo7_seen.visited);
  oo1_json_whole(object, "visited", visited);
  oo1_json_hex(object, "checksum", oo7_seen.checksum);
  oo1_json_print(object);
  free(copy), free(taken.wall), free(taken.cpu);
}

int main(int count, char **arguments) {
  argp_err_exit_status = 1;
  const char *command = count > 1 ? arguments[1] : "";
  if (strcmp(command, "load") == 0)
    load(count - 1, arguments + 1);
  else if (strcmp(command, "run") == 0)
    run(count - 1, arguments + 1);
  else
    oo1_die("%s is not a command\n  remedy: load STORE, run STORE --traversal T1|T2a|T6",
            *command != '\0' ? command : "nothing");
  return 0;
}
