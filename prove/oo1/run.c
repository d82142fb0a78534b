#include "run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checksum.h"
#include "die.h"

const char *const oo1_measures[4] = {"traversal", "reverse", "lookup", "insert"};

/* Random streams of a pattern. */
enum { STREAM_ROOTS = 1, STREAM_HOT_SET = 2, STREAM_LOOKUPS = 3, STREAM_INSERTS = 4 };

typedef struct session {
  const oo1_mode *mode;
  const oo1_description *description;
  const oo1_request *request;
  const char *folder; /* folder of the open store: the copy, for an insert */
  oo1_result *result;
  uint32_t *roots;    /* [pattern] */
  uint32_t *ids;      /* [OO1_LOOKUPS] of the current pattern */
  oo1_random inserts; /* draws the new parts */
  uint32_t parts;     /* with the inserted */
  oo1_graph_part *fresh;
  int raw_file;
  char *raw_buffer;
} session;

static bool is_insert(const session *run) { return run->request->measure == OO1_INSERT; }

/* Draws the inputs of a unit before it is timed. */
static void prepare(session *run, uint32_t pattern) {
  if (run->request->measure == OO1_LOOKUP) {
    oo1_random random =
        oo1_stream(run->request->sizes.seed, STREAM_LOOKUPS + ((uint64_t)pattern << 8));
    for (uint32_t i = 0; i < OO1_LOOKUPS; i++)
      run->ids[i] = 1 + (uint32_t)oo1_below(&random, run->parts);
  } else if (is_insert(run)) {
    uint32_t before = run->parts;
    run->parts += OO1_INSERTED;
    for (uint32_t i = 0; i < OO1_INSERTED; i++)
      oo1_draw_part(&run->inserts, before + 1 + i, run->parts, run->description->locality,
                    &run->fresh[i]);
  }
}

static void perform(session *run, const oo1_operations *operations, uint32_t pattern, bool first) {
  switch (run->request->measure) {
    case OO1_TRAVERSAL:
      operations->traverse(run->roots[pattern], OO1_HOPS, first && run->request->how.prefetch);
      break;
    case OO1_REVERSE:
      if (operations->reverse(run->roots[pattern], OO1_HOPS, OO1_REVERSE_LIMIT) &&
          operations == &run->mode->looking)
        run->result->capped++;
      break;
    case OO1_LOOKUP: operations->lookup(run->ids, OO1_LOOKUPS); break;
    case OO1_INSERT: run->mode->insert(run->fresh, OO1_INSERTED); break;
  }
}

/* ---- the append beside each commit ---- */

static void raw_begin(session *run, size_t units) {
  char *path = oo1_format("%s.raw", run->folder);
  run->raw_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (run->raw_file < 0) oo1_die_errno("%s cannot be made", path);
  unlink(path); /* exists until the process ends */
  free(path);
  run->result->raw = oo1_allocate_zeroed(units * sizeof *run->result->raw);
}

static void raw_append(session *run, uint64_t bytes) {
  if (bytes == 0) bytes = OO1_INSERTED * sizeof *run->fresh;
  run->raw_buffer = realloc(run->raw_buffer, bytes);
  if (run->raw_buffer == NULL) oo1_die("no memory for an append");
  memset(run->raw_buffer, 0x5a, bytes);
  uint64_t before = oo1_clock(CLOCK_MONOTONIC);
  if (write(run->raw_file, run->raw_buffer, bytes) != (ssize_t)bytes ||
      fdatasync(run->raw_file) != 0)
    oo1_die_errno("the append beside the commits failed");
  run->result->raw[run->result->raw_count++] = oo1_clock(CLOCK_MONOTONIC) - before;
  run->result->raw_bytes = bytes;
}

/* ---- stopping early ---- */

static volatile sig_atomic_t asked_to_stop;
static void on_stop(int signal_number) { asked_to_stop = signal_number; }

/* Between units: stops on request, removing a copy. */
static void stop_if_asked(const session *run) {
  if (!asked_to_stop) return;
  if (is_insert(run)) oo1_folder_remove(run->folder);
  signal(asked_to_stop, SIG_DFL);
  raise(asked_to_stop);
}

/* ---- the timed pass ---- */

static void timed_step(session *run, const oo1_step *step) {
  prepare(run, step->pattern);
  oo1_counts before = {0}, after = {0};
  if (is_insert(run)) run->mode->counts(&before);
  uint64_t cpu = oo1_clock(CLOCK_PROCESS_CPUTIME_ID), wall = oo1_clock(CLOCK_MONOTONIC);
  for (uint32_t i = 0; i < step->repeats; i++)
    perform(run, &run->mode->timed, step->pattern, step == run->result->plan.steps && i == 0);
  wall = oo1_clock(CLOCK_MONOTONIC) - wall;
  cpu = oo1_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  if (is_insert(run)) {
    run->mode->counts(&after);
    raw_append(run, after.bytes_logged - before.bytes_logged);
  }
  if (step->phase == OO1_UNTIMED) return;
  oo1_times *times = &run->result->phases[step->phase];
  times->wall[times->count] = wall;
  times->cpu[times->count] = cpu;
  times->repeats[times->count++] = step->repeats;
}

static void timed_pass(session *run) {
  oo1_result *result = run->result;
  for (int i = 0; i < OO1_PHASES; i++) {
    size_t most = result->plan.count;
    result->phases[i] =
        (oo1_times){oo1_allocate(most * sizeof(uint64_t)), oo1_allocate(most * sizeof(uint64_t)),
                    oo1_allocate(most * sizeof(uint32_t)), 0};
  }
  oo1_usage before = oo1_usage_now();
  oo1_counts counts_before = {0};
  bool started = false;
  for (size_t i = 0; i < result->plan.count; i++) {
    if (!started && result->plan.steps[i].phase != OO1_UNTIMED) {
      started = true;
      run->mode->counts(&counts_before);
      before = oo1_usage_now();
    }
    timed_step(run, &result->plan.steps[i]);
    stop_if_asked(run);
  }
  oo1_usage after = oo1_usage_now();
  run->mode->counts(&result->counts);
  result->counts.faults_handled -= counts_before.faults_handled;
  result->usage = (oo1_usage){
      after.minor_faults - before.minor_faults, after.major_faults - before.major_faults,
      after.read_calls - before.read_calls, after.read_bytes - before.read_bytes};
  oo1_memory_now(&result->rss, &result->rss_peak);
}

/* ---- the pass that looks ---- */

static void note_visited(session *run, uint64_t before) {
  run->result->visited[run->result->patterns_seen++] = oo1_seen.visited - before;
}

static void look_at_patterns(session *run) {
  run->result->visited = oo1_allocate(run->result->plan.patterns * sizeof(uint64_t));
  for (uint32_t pattern = 0; pattern < run->result->plan.patterns; pattern++) {
    uint64_t before = oo1_seen.visited;
    prepare(run, pattern);
    perform(run, &run->mode->looking, pattern, false);
    note_visited(run, before);
  }
}

/* Did all the new parts arrive, in both directions? */
static void look_at_inserted(session *run) {
  const uint32_t looks = 10, before = run->description->parts, added = run->parts - before;
  run->result->visited = oo1_allocate(2 * looks * sizeof(uint64_t));
  for (uint32_t i = 0; i < looks; i++) {
    uint64_t seen = oo1_seen.visited;
    run->mode->looking.traverse(before + 1 + (uint32_t)((uint64_t)i * added / looks), OO1_HOPS,
                                false);
    note_visited(run, seen);
  }
  if (run->mode->looking.reverse == NULL) return;
  /* The old parts with the highest ids: with locality, new parts lead to these. */
  for (uint32_t i = 0; i < looks; i++) {
    uint64_t seen = oo1_seen.visited;
    run->mode->looking.reverse(before - i, 2, OO1_REVERSE_LIMIT);
    note_visited(run, seen);
  }
}

static void open_store(session *run) {
  uint32_t room = is_insert(run) ? OO1_INSERTED * (uint32_t)run->result->plan.count : 0;
  run->mode->open(run->folder, &run->request->how, run->description->parts, room);
}

void oo1_run(const oo1_mode *mode, const char *folder, const oo1_description *description,
             const oo1_request *request, oo1_add add, void *state, oo1_result *result) {
  memset(result, 0, sizeof *result);
  oo1_plan_make(request->protocol, &request->sizes, &result->plan);
  session run = {.mode = mode,
                 .description = description,
                 .request = request,
                 .folder = folder,
                 .result = result,
                 .parts = description->parts,
                 .inserts = oo1_stream(request->sizes.seed, STREAM_INSERTS)};
  run.ids = oo1_allocate(OO1_LOOKUPS * sizeof *run.ids);
  run.fresh = oo1_allocate(OO1_INSERTED * sizeof *run.fresh);
  run.roots = oo1_allocate(result->plan.patterns * sizeof *run.roots);
  oo1_random random = oo1_stream(request->sizes.seed, STREAM_ROOTS);
  for (uint32_t i = 0; i < result->plan.patterns; i++)
    run.roots[i] = 1 + (uint32_t)oo1_below(&random, description->parts);

  result->store_bytes = oo1_folder_bytes(folder);
  signal(SIGTERM, on_stop);
  signal(SIGINT, on_stop);
  char *copy = NULL;
  if (is_insert(&run)) {
    run.folder = copy = oo1_format("%s.insert.%d", folder, (int)getpid());
    oo1_folder_copy(folder, copy);
    raw_begin(&run, result->plan.count);
  }
  if (request->drop_cache)
    result->resident_after_drop = oo1_folder_drop(run.folder);
  else
    oo1_folder_warm(run.folder);

  uint64_t before = oo1_clock(CLOCK_MONOTONIC);
  open_store(&run);
  result->open_ns = oo1_clock(CLOCK_MONOTONIC) - before;
  timed_pass(&run);
  if (mode->statistics != NULL) mode->statistics(add, state);

  if (is_insert(&run)) {
    if (mode->keeps) { /* check what another process would read */
      mode->close();
      open_store(&run);
    }
    look_at_inserted(&run);
  } else {
    look_at_patterns(&run);
  }
  result->checksum = oo1_seen.checksum;
  mode->close();
  if (copy != NULL) {
    oo1_folder_remove(copy);
    free(copy);
  }
  free(run.ids), free(run.fresh), free(run.roots), free(run.raw_buffer);
}
