/*
 * Detects who else displaces lines of a processor's L2: other guests, if they have the second
 * thread of its core; and other processors of this machine, if the host runs two of them on one
 * core, against the topology that it reports. Both can change from one second to the next
 * (ARCHITECTURE.md). The test leaves lines alone while the other processors rest, and while they
 * stream.
 *
 *   processor    wait | wait | wait | ...      each 200 us
 *   the others   rest   stream  rest
 *
 * Streams read 4 MB, twice the largest L2 at present. If L3 is inclusive and hardly larger, they
 * might displace lines although no L2 is shared: such processors (before 2017) could not be tested.
 */
#include "probe_discover.h"

#include "kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { CPUS_MAX = 64, STREAM = 4 << 20, PIECE = 64 << 10 };
enum { LOOK_NS = 200000, WAKE_NS = 100000 };
/*
 * Measurements during which a processor streamed fewer pieces are discarded: it was late, or was
 * doing other work.
 */
enum { PIECES_FEWEST = 4 };
enum doing { RESTING, STREAMING, ENDING };

struct others {
  char *memory; /* only read */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  _Atomic int doing;
  _Atomic uint64_t until_ns; /* end of a stream: the measuring thread may be kept from ending it */
  uint32_t count;
  struct other {
    struct others *all;
    uint32_t cpu;
    bool stays;
    _Atomic uint32_t pieces; /* pieces streamed so far */
  } other[CPUS_MAX];
};
struct looker {
  const struct split_probe *probe;
  struct others *others;
  uint32_t cpu, looks;
  bool stays;
  struct split_looks *found;
};

/* ---- the other processors ---- */

static void have_them(struct others *others, enum doing doing) {
  pthread_mutex_lock(&others->lock);
  others->until_ns = split_discover_now_ns() + WAKE_NS + 2 * LOOK_NS;
  others->doing = doing;
  pthread_cond_broadcast(&others->changed);
  pthread_mutex_unlock(&others->lock);
}

static bool may_stream(const struct others *others) {
  return others->doing == STREAMING && split_discover_now_ns() < others->until_ns;
}

static void *rest_and_stream(void *of) {
  struct other *other = of;
  struct others *all = other->all;
  other->stays = split_discover_stay_on(other->cpu);
  size_t at = 0;
  while (other->stays && all->doing != ENDING) {
    for (; may_stream(all); at = (at + PIECE) % STREAM) {
      (void)section_pass(SECTION_STREAM, all->memory + at, PIECE, 0);
      other->pieces++;
    }
    pthread_mutex_lock(&all->lock);
    while (all->doing != ENDING && !may_stream(all)) pthread_cond_wait(&all->changed, &all->lock);
    pthread_mutex_unlock(&all->lock);
  }
  return NULL;
}

/* ---- the measuring processor ---- */

static bool look_at_rest(struct looker *looker, uint32_t turn, double *gone) {
  *gone = split_discover_gone_meanwhile(looker->probe, turn, LOOK_NS, NULL);
  return *gone >= 0;
}

static bool look_beside_streams(struct looker *looker, uint32_t turn, double *gone) {
  struct others *others = looker->others;
  uint32_t before[CPUS_MAX];
  for (uint32_t i = 0; i < others->count; i++) before[i] = others->other[i].pieces;
  bool streamed = look_at_rest(looker, turn, gone);
  for (uint32_t i = 0; i < others->count; i++)
    streamed &= others->other[i].pieces - before[i] >= PIECES_FEWEST;
  return streamed;
}

static void *look(void *of) {
  struct looker *looker = of;
  struct others *others = looker->others;
  struct split_looks *found = looker->found;
  looker->stays = split_discover_stay_on(looker->cpu);
  for (uint32_t turn = 0; looker->stays && turn < 2 * looker->looks; turn++) {
    const bool streams = turn % 2 == 1;
    double gone;
    if (streams && others->count == 0) continue;
    have_them(others, streams ? STREAMING : RESTING);
    const uint64_t start = split_discover_now_ns();
    while (split_discover_now_ns() - start < WAKE_NS) continue;
    if (streams && look_beside_streams(looker, turn, &gone))
      found->while_streaming[found->streaming++] = (float)gone;
    else if (!streams && look_at_rest(looker, turn, &gone))
      found->while_resting[found->resting++] = (float)gone;
  }
  return NULL;
}

bool split_discover_look(const struct split_probe *probe, uint32_t cpu, const uint32_t *others,
                         uint32_t count, uint32_t looks, struct split_looks *found) {
  struct section_arena arena;
  memset(found, 0, sizeof(*found));
  if (count > CPUS_MAX || looks > SPLIT_LOOKS_MAX || !section_arena_open(&arena, STREAM))
    return false;
  struct others all = {.memory = arena.memory,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .changed = PTHREAD_COND_INITIALIZER};
  struct looker looker = {
      .probe = probe, .others = &all, .cpu = cpu, .looks = looks, .found = found};
  pthread_t threads[CPUS_MAX], looking;
  for (; all.count < count; all.count++) {
    struct other *other = &all.other[all.count];
    *other = (struct other){.all = &all, .cpu = others[all.count]};
    if (pthread_create(&threads[all.count], NULL, rest_and_stream, other) != 0) break;
  }
  bool seen = all.count == count && pthread_create(&looking, NULL, look, &looker) == 0;
  if (seen) pthread_join(looking, NULL);
  seen &= looker.stays;
  have_them(&all, ENDING);
  for (uint32_t i = 0; i < all.count; i++) {
    pthread_join(threads[i], NULL);
    seen &= all.other[i].stays;
  }
  section_arena_close(&arena);
  return seen;
}
