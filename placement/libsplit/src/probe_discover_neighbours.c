/*
 * Who else displaces what lies in a processor's L2? Strangers, where the other thread of its core is another machine's; and our own other
 * processors, where a host puts two of them on one core, whatever its guest's kernel was told: both change from one second to the next
 * (ARCHITECTURE.md, "place"). Found out by lines that are left alone while the other processors rest, and while they stream.
 *
 *   processor    look | look | look | ...      each 200 us
 *   the others   rest   stream  rest
 */
#include "probe_discover.h"

#include "kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { CPUS_MAX = 64, STREAM = 4 << 20, PIECE = 64 << 10, LOOK_NS = 200000, WAKE_NS = 100000 };
enum doing { RESTING, STREAMING, ENDING };

struct others {
  char *stream; /* is only read */
  _Atomic int doing;
  pthread_mutex_t rest;
  pthread_cond_t rested;
};
struct other {
  struct others *all;
  uint32_t cpu;
};
struct looker {
  const struct split_probe *probe;
  uint32_t cpu, looks;
  struct others *others; /* NULL: there are none */
  struct split_looks *found;
  bool stays;
};

static bool stay_on(uint32_t cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  return sched_setaffinity(0, sizeof(cpus), &cpus) == 0;
}

static void make(struct others *others, enum doing doing) {
  pthread_mutex_lock(&others->rest);
  others->doing = doing;
  pthread_cond_broadcast(&others->rested);
  pthread_mutex_unlock(&others->rest);
}

static void *stream(void *of) {
  const struct other *other = of;
  struct others *all = other->all;
  /* Where it may not run it would stream on the looker's processor, and be seen as a switch of context. */
  const bool stays = stay_on(other->cpu);
  for (size_t at = 0; all->doing != ENDING; at = (at + PIECE) % STREAM) {
    if (stays && all->doing == STREAMING) {
      (void)section_pass(SECTION_STREAM, all->stream + at, PIECE, 0);
      continue;
    }
    pthread_mutex_lock(&all->rest);
    while (all->doing == RESTING || (!stays && all->doing != ENDING))
      pthread_cond_wait(&all->rested, &all->rest);
    pthread_mutex_unlock(&all->rest);
  }
  return NULL;
}

static void *look(void *of) {
  struct looker *looker = of;
  struct split_looks *found = looker->found;
  looker->stays = stay_on(looker->cpu);
  for (uint32_t turn = 0; looker->stays && turn < 2 * looker->looks; turn++) {
    const enum doing doing = turn % 2 == 0 ? RESTING : STREAMING;
    if (looker->others == NULL && doing == STREAMING) continue;
    if (looker->others != NULL) {
      make(looker->others, doing);
      const uint64_t start = split_discover_now_ns();
      while (split_discover_now_ns() - start < WAKE_NS) continue;
    }
    const double gone = split_discover_gone_meanwhile(looker->probe, turn, LOOK_NS);
    if (gone < 0) continue;
    if (doing == RESTING)
      found->while_resting[found->resting++] = (float)gone;
    else
      found->while_streaming[found->streaming++] = (float)gone;
  }
  return NULL;
}

bool split_discover_look(const struct split_probe *probe, uint32_t cpu, const uint32_t *others,
                         uint32_t count, uint32_t looks, struct split_looks *found) {
  struct section_arena arena;
  struct others all = {.rest = PTHREAD_MUTEX_INITIALIZER, .rested = PTHREAD_COND_INITIALIZER};
  struct other other[CPUS_MAX];
  pthread_t threads[CPUS_MAX], looking;
  memset(found, 0, sizeof(*found));
  if (count > CPUS_MAX || looks > SPLIT_LOOKS_MAX || !section_arena_open(&arena, STREAM))
    return false;
  all.stream = arena.memory;
  struct looker looker = {.probe = probe,
                          .cpu = cpu,
                          .looks = looks,
                          .others = count > 0 ? &all : NULL,
                          .found = found};
  uint32_t started = 0;
  for (; started < count; started++) {
    other[started] = (struct other){.all = &all, .cpu = others[started]};
    if (pthread_create(&threads[started], NULL, stream, &other[started]) != 0) break;
  }
  const bool complete = started == count && pthread_create(&looking, NULL, look, &looker) == 0;
  if (complete) pthread_join(looking, NULL);
  make(&all, ENDING);
  for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
  section_arena_close(&arena);
  return complete && looker.stays;
}
