#include "server.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NOT_COUNTED = -1, OPEN_LOOP_CAPACITY = 1 << 16, BALANCE_PASSES = 101 };

struct request {
  unsigned kind;
  uint64_t arrived_ns;
};

struct tally {
  uint64_t count, cpu_ns;
  struct latencies latencies;
};

struct worker {
  _Alignas(64) struct server *server;
  unsigned number;
  _Atomic bool working;
  struct worker_stage {
    uint64_t cpu_ns, cpu_changes;
    struct tally kind[MIX_KINDS];
  } * stage; /* one for each */
};

struct server {
  const struct server_options *options;
  struct mix mix; /* balanced, if that is wanted */
  split_queue *queue;
  struct kind_memory {
    struct section_arena arena;
    size_t piece;
    _Atomic uint64_t next;
  } memory[MIX_KINDS];
  _Atomic int stage; /* NOT_COUNTED or which */
  _Atomic uint64_t next, done;
  _Atomic bool ending;
  uint64_t started_ns; /* of the first request */
  /* While set, workers begin no request. */
  _Atomic bool resting;
  pthread_mutex_t rest;
  pthread_cond_t rested;
};

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t ns) {
  const struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u),
                              .tv_nsec = (long)(ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
  }
}

/* ---- clients ---- */

static bool put(struct server *server, struct request *request, uint64_t arrived_ns) {
  const struct server_options *options = server->options;
  const uint64_t number = server->next++;
  if (server->ending || (options->requests > 0 && number >= options->requests)) return false;
  request->kind = mix_kind_of(&server->mix, options->seed, number);
  request->arrived_ns = arrived_ns;
  const char *key = server->mix.kind[request->kind].key;
  return split_queue_put(server->queue, key, strlen(key), request);
}

/* Open loop: the time of a request starts when it was due, even if it was queued late. */
static void *arrivals(void *of) {
  struct server *server = of;
  const struct server_options *options = server->options;
  double at = (double)clock_ns(CLOCK_MONOTONIC);
  for (uint64_t i = 0; !server->ending; i++) {
    at += -log(1 - mix_random(options->seed + 1, i)) / options->rate * 1e9;
    sleep_until((uint64_t)at);
    struct request *request = malloc(sizeof(*request));
    if (request != NULL && !put(server, request, (uint64_t)at)) free(request);
    if (options->requests > 0 && server->next >= options->requests) break;
  }
  return NULL;
}

/* ---- rest ----
 *
 *   worker: working = true; resting? then wait             main: resting = true; until no worker is working
 *
 * With this order on both sides, either the worker sees `resting` or main sees `working`.
 */

static void begin_work(struct worker *worker) {
  struct server *server = worker->server;
  for (worker->working = true; server->resting; worker->working = true) {
    worker->working = false;
    pthread_mutex_lock(&server->rest);
    while (server->resting) pthread_cond_wait(&server->rested, &server->rest);
    pthread_mutex_unlock(&server->rest);
  }
}

/* Measures the caches while all workers rest. */
static struct section_calm look_at_rest(struct server *server, struct worker *workers) {
  const struct server_options *options = server->options;
  if (options->look == NULL) return (struct section_calm){0};
  server->resting = true;
  for (unsigned i = 0; i < options->workers; i++)
    while (workers[i].working) sleep_until(clock_ns(CLOCK_MONOTONIC) + 20000);
  const struct section_calm calm = options->look();
  pthread_mutex_lock(&server->rest);
  server->resting = false;
  pthread_cond_broadcast(&server->rested);
  pthread_mutex_unlock(&server->rest);
  return calm;
}

static struct section_calm larger(struct section_calm left, struct section_calm right) {
  if (right.by_strangers > left.by_strangers) left.by_strangers = right.by_strangers;
  if (right.by_ours > left.by_ours) left.by_ours = right.by_ours;
  return left;
}

/* ---- workers ---- */

static void count(struct worker *worker, int stage, const struct request *request, uint64_t cpu_ns,
                  uint64_t now) {
  struct tally *tally = &worker->stage[stage].kind[request->kind];
  tally->count++;
  tally->cpu_ns += cpu_ns;
  latencies_add(&tally->latencies, now > request->arrived_ns ? now - request->arrived_ns : 0);
}

static void run_section(struct server *server, unsigned number) {
  const struct mix_kind *kind = &server->mix.kind[number];
  struct kind_memory *memory = &server->memory[number];
  const size_t pieces = memory->arena.bytes / memory->piece;
  const size_t piece = pieces > 1 ? memory->next++ % pieces : 0;
  for (unsigned pass = 0; pass < kind->passes; pass++)
    (void)section_pass(kind->shape, memory->arena.memory + piece * memory->piece, memory->piece,
                       number + 1);
}

static void *work(void *of) {
  struct worker *worker = of;
  struct server *server = worker->server;
  const struct server_options *options = server->options;
  int before = NOT_COUNTED, cpu_before = -1;
  uint64_t cpu_at_end = 0;
  for (struct request *request;
       (request = split_queue_take(server->queue, worker->number)) != NULL;) {
    begin_work(worker);
    const struct mix_kind *kind = &server->mix.kind[request->kind];
    const int stage = server->stage;
    split_section section;
    if (!options->bare) split_begin(&section, 0, kind->key, strlen(kind->key));
    const uint64_t cpu_at_start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    run_section(server, request->kind);
    const uint64_t cpu_before_last = cpu_at_end;
    cpu_at_end = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!options->bare) split_finish(&section);
    const int cpu = sched_getcpu();
    if (stage >= 0 && stage == server->stage) {
      count(worker, stage, request, cpu_at_end - cpu_at_start, clock_ns(CLOCK_MONOTONIC));
      /* The interval from the end of the last request: taking, waiting, putting. */
      if (stage == before)
        worker->stage[stage].cpu_ns += cpu_at_end - cpu_before_last;
      else
        worker->stage[stage].cpu_ns += cpu_at_end - cpu_at_start;
      worker->stage[stage].cpu_changes += stage == before && cpu != cpu_before;
    }
    before = stage;
    cpu_before = cpu;
    server->done++;
    if (options->rate > 0)
      free(request);
    else
      (void)put(server, request, clock_ns(CLOCK_MONOTONIC));
    worker->working = false;
  }
  return NULL;
}

/* ---- the run ---- */

static void set_placing(bool placing) {
  const int64_t place = placing;
  split_set(SPLIT_PLACE, &place);
}

static void run_stage(struct server *server, unsigned number, uint64_t (*affinity_moves)(void),
                      struct server_stage_result *result) {
  const struct server_options *options = server->options;
  result->placing = options->placing[number] == '1';
  set_placing(result->placing);
  struct split_queue_counts before, after;
  split_queue_counts(server->queue, &before);
  const uint64_t moves = affinity_moves();
  uint64_t started = server->started_ns;
  if (options->requests > 0) {
    while (server->done < options->requests) sleep_until(clock_ns(CLOCK_MONOTONIC) + 100000);
  } else {
    sleep_until(clock_ns(CLOCK_MONOTONIC) + (uint64_t)(options->settle_seconds * 1e9));
    started = clock_ns(CLOCK_MONOTONIC);
    server->stage = (int)number;
    sleep_until(started + (uint64_t)(options->stage_seconds * 1e9));
  }
  server->stage = NOT_COUNTED;
  result->seconds = (double)(clock_ns(CLOCK_MONOTONIC) - started) / 1e9;
  split_queue_counts(server->queue, &after);
  result->affinity_moves = affinity_moves() - moves;
  result->queue =
      (struct split_queue_counts){.put = after.put - before.put,
                                  .taken_at_home = after.taken_at_home - before.taken_at_home,
                                  .stolen = after.stolen - before.stolen,
                                  .refused = after.refused - before.refused,
                                  .placed = after.placed - before.placed};
}

static void add_up(const struct worker *workers, const struct server_options *options,
                   struct server_stage_result *results) {
  for (unsigned stage = 0; stage < options->stages; stage++)
    for (unsigned i = 0; i < options->workers; i++) {
      const struct worker_stage *from = &workers[i].stage[stage];
      results[stage].worker_cpu_ns += from->cpu_ns;
      results[stage].cpu_changes += from->cpu_changes;
      for (unsigned kind = 0; kind < MIX_KINDS; kind++) {
        results[stage].requests += from->kind[kind].count;
        results[stage].kind[kind].count += from->kind[kind].count;
        results[stage].kind[kind].cpu_ns += from->kind[kind].cpu_ns;
        latencies_merge(&results[stage].kind[kind].latencies, &from->kind[kind].latencies);
      }
    }
}

static const char *run_with(struct server *server, struct worker *workers, pthread_t *threads,
                            struct request *requests, uint64_t (*affinity_moves)(void),
                            struct server_stage_result *results) {
  const struct server_options *options = server->options;
  pthread_t generator;
  set_placing(options->placing[0] == '1');
  unsigned started = 0;
  server->stage = options->requests > 0 ? 0 : NOT_COUNTED;
  for (; started < options->workers; started++)
    if (pthread_create(&threads[started], NULL, work, &workers[started]) != 0) break;
  const bool complete = started == options->workers;
  server->started_ns = clock_ns(CLOCK_MONOTONIC);
  const bool open =
      complete && options->rate > 0 && pthread_create(&generator, NULL, arrivals, server) == 0;
  for (unsigned i = 0; complete && options->rate <= 0 && i < options->outstanding; i++)
    (void)put(server, &requests[i], clock_ns(CLOCK_MONOTONIC));
  struct section_calm before = {0};
  if (complete) before = look_at_rest(server, workers);
  for (unsigned stage = 0; complete && stage < options->stages; stage++) {
    run_stage(server, stage, affinity_moves, &results[stage]);
    const struct section_calm after = look_at_rest(server, workers);
    results[stage].calm = larger(before, after);
    before = after;
  }
  server->ending = true;
  if (open) pthread_join(generator, NULL);
  split_queue_shut(server->queue);
  for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
  return complete ? NULL : "no more threads can be made";
}

static int by_value(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The time of a request of each kind alone on a core: the lowest tenth of its passes. The others may have been disturbed by another program
 * on the core's other thread, which can only make them longer. */
static void balance(struct server *server) {
  double took[BALANCE_PASSES], alone[MIX_KINDS];
  for (unsigned kind = 0; kind < MIX_KINDS; kind++) {
    for (unsigned pass = 0; pass < BALANCE_PASSES; pass++) {
      const uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      run_section(server, kind);
      took[pass] = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    qsort(took, BALANCE_PASSES, sizeof(*took), by_value);
    alone[kind] = took[BALANCE_PASSES / 10];
  }
  mix_balance(&server->mix, alone);
}

const char *server_run(const struct server_options *options, uint64_t (*affinity_moves)(void),
                       struct server_stage_result *results) {
  struct server server = {.options = options,
                          .mix = options->mix,
                          .rest = PTHREAD_MUTEX_INITIALIZER,
                          .rested = PTHREAD_COND_INITIALIZER};
  const size_t capacity = options->rate > 0 ? OPEN_LOOP_CAPACITY : options->outstanding;
  struct worker *workers = aligned_alloc(64, options->workers * sizeof(*workers));
  pthread_t *threads = calloc(options->workers, sizeof(*threads));
  struct request *requests = calloc(capacity, sizeof(*requests));
  struct worker_stage *stages = calloc((size_t)options->workers * options->stages, sizeof(*stages));
  const char *problem = "there is not enough memory";
  memset(results, 0, options->stages * sizeof(*results));
  server.queue = split_queue_open(capacity, options->workers);
  bool complete = workers && threads && requests && stages && server.queue;
  for (unsigned kind = 0; kind < MIX_KINDS; kind++) {
    const struct mix_kind *of = &server.mix.kind[kind];
    const uint32_t kilobytes = of->of_kilobytes > 0 ? of->of_kilobytes : of->kilobytes;
    server.memory[kind].piece = (size_t)of->kilobytes * 1024;
    if (!section_arena_open(&server.memory[kind].arena, (size_t)kilobytes * 1024)) complete = false;
  }
  if (complete) {
    for (unsigned i = 0; i < options->workers; i++)
      workers[i] = (struct worker){
          .server = &server, .number = i, .stage = &stages[(size_t)i * options->stages]};
    if (options->balance) balance(&server);
    problem = run_with(&server, workers, threads, requests, affinity_moves, results);
    add_up(workers, options, results);
  }
  for (unsigned kind = 0; kind < MIX_KINDS; kind++) section_arena_close(&server.memory[kind].arena);
  split_queue_close(server.queue);
  free(stages);
  free(requests);
  free(threads);
  free(workers);
  return problem;
}
