/*
 * Restores affinity and time slice: the table of threads, and the service thread that checks it.
 *
 *   entry   free ── split_entry_claim ──> a thread's ── affinity.c: narrowed = serial ──> narrowed
 *             ^                              ^  │ the thread ends, or is gone: reclaim      │ split_entry_release: 0, then the wide mask
 *             │                              └──┼───────────────────────────────────────────┘
 *             └─────────────────────────────────┘
 *
 * The same states hold for a thread's slice: slice.c sets `sliced`, split_entry_release_slice
 * clears it.
 *
 * Invariants:
 *   1. The thread that will restore the wide affinity (the old slice) changes `narrowed` (`sliced`)
 *      from a serial to 0, by one exchange.
 *   2. An entry belongs to the thread with its start time; another thread with that number is not
 *      changed.
 *   3. All processes of a server write the table, those without rights too. So an entry is a claim:
 *      only threads of this process, its children and its siblings are changed.
 */
#include "release.h"

#include "attributes.h"
#include "fresh.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SERVICE_NS 250000000
#define SERVICE_STACK (64 * 1024)

/* What /proc has of a thread: the parent of its process, and its start, which distinguishes it from
 * a later thread with the same number. */
struct seen {
  uint64_t parent, started_ticks;
};

/* /proc/TID/stat without the number and the name, which ends with the last bracket: it begins with
 * the third field. NULL, with errno: not known. No stdio, no allocation: this runs in signal
 * handlers, too. */
static const char *read_stat(uint32_t tid, char *text, size_t room) {
  char path[32] = "/proc/";
  char digits[12];
  int n = 0, at = 6;
  do digits[n++] = (char)('0' + tid % 10);
  while ((tid /= 10) != 0);
  while (n > 0) path[at++] = digits[--n];
  memcpy(path + at, "/stat", 6);
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return NULL;
  ssize_t length = read(descriptor, text, room - 1);
  const int why = length == 0 ? EIO : errno;
  close(descriptor);
  errno = why;
  if (length <= 0) return NULL;
  text[length] = '\0';
  const char *bracket = strrchr(text, ')');
  return bracket && bracket[1] == ' ' ? bracket + 2 : "";
}

static uint64_t number_of_field(const char *at, int field) {
  for (int i = 3; i < field && *at != '\0'; at++)
    if (*at == ' ') i++;
  uint64_t number = 0;
  for (; *at >= '0' && *at <= '9'; at++) number = number * 10 + (uint64_t)(*at - '0');
  return number;
}

/* A start of 0, with errno: not known. */
static struct seen look_at(uint32_t tid) {
  char text[512];
  const char *fields = read_stat(tid, text, sizeof text);
  if (!fields) return (struct seen){0, 0};
  uint64_t started = number_of_field(fields, 22);
  return (struct seen){number_of_field(fields, 4), started ? started : 1};
}

uint64_t split_started_ticks(uint32_t tid) { return look_at(tid).started_ticks; }

/* Invariant 3. Below init, and in a container below process 0, all daemons are siblings; what root may not
 * do there, the kernel refuses to other accounts. A supervisor's programs count as one server. */
static bool is_of_this_server(uint32_t tid, uint64_t parent) {
  int before = errno;
  bool is_own = syscall(SYS_tgkill, getpid(), tid, 0) == 0;
  errno = before;
  if (is_own || parent == (uint64_t)getpid()) return true;
  const pid_t above = getppid();
  return parent == (uint64_t)above && (above > 1 || geteuid() != 0);
}

bool split_entry_lives(const struct split_thread *entry, uint32_t tid) {
  const struct seen seen = look_at(tid);
  return seen.started_ticks != 0 &&
         seen.started_ticks == atomic_load_explicit(&entry->started_ticks, memory_order_relaxed) &&
         is_of_this_server(tid, seen.parent);
}

/* Frees the entry of a thread that is gone. An entry that was just taken has no start time yet:
 * its thread exists, and it is not narrowed. */
static void reclaim(struct split_thread *entry, uint32_t tid) {
  const bool changed = atomic_load(&entry->narrowed) || atomic_load(&entry->sliced);
  const uint64_t started = split_started_ticks(tid);
  if (started == 0 && !split_has_ended()) return;
  if (started != 0 && (!changed || started == atomic_load(&entry->started_ticks))) return;
  atomic_store(&entry->narrowed, 0);
  atomic_store(&entry->sliced, 0);
  atomic_compare_exchange_strong(&entry->tid, &tid, 0);
}

struct split_thread *split_entry_claim(struct split_mapping *mapping, uint32_t tid) {
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < mapping->thread_count; i++) {
      struct split_thread *entry = &mapping->threads[(tid + i) % mapping->thread_count];
      uint32_t there = atomic_load_explicit(&entry->tid, memory_order_relaxed);
      /* Has this thread's number, but belongs to an earlier thread, which must be gone. */
      if (there == tid ||
          (there == 0 && atomic_compare_exchange_strong(&entry->tid, &there, tid))) {
        atomic_store(&entry->narrowed, 0);
        atomic_store(&entry->sliced, 0);
        atomic_store(&entry->code, 0);
        atomic_store(&entry->started_ticks, split_started_ticks(tid));
        return entry;
      }
    }
    for (uint32_t i = 0; i < mapping->thread_count; i++) {
      uint32_t there = atomic_load(&mapping->threads[i].tid);
      if (there) reclaim(&mapping->threads[i], there);
    }
  }
  return NULL;
}

struct split_thread *split_thread_entry(struct split_self *self) {
  struct split_thread *entry = atomic_load_explicit(&self->affinity.entry, memory_order_relaxed);
  if (entry) return entry;
  entry = split_entry_claim(self->mapping, self->tid);
  if (entry) atomic_store(&self->affinity.entry, entry);
  return entry;
}

bool split_entry_release(struct split_thread *entry) {
  uint32_t tid = atomic_load(&entry->tid);
  uint32_t narrowed = atomic_load_explicit(&entry->narrowed, memory_order_acquire);
  if (tid == 0 || tid > INT_MAX || narrowed == 0) return false;
  uint64_t mask[SPLIT_MASK_WORDS];
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    mask[i] = atomic_load_explicit(&entry->original_mask[i], memory_order_relaxed);
  bool ours = split_self_here && split_self_here->tid == tid;
  if (!ours && !split_entry_lives(entry, tid)) {
    reclaim(entry, tid);
    return false;
  }
  if (!atomic_compare_exchange_strong(&entry->narrowed, &narrowed, 0)) return false;
  if (syscall(SYS_sched_setaffinity, tid, sizeof mask, mask) == 0) return true;
  if (errno != EINVAL) return false;
  /* None of its CPUs is still allowed (a cpuset changed): use all that are. */
  memset(mask, 0xff, sizeof mask);
  return syscall(SYS_sched_setaffinity, tid, sizeof mask, mask) == 0;
}

bool split_entry_release_slice(struct split_thread *entry) {
  uint32_t tid = atomic_load(&entry->tid);
  uint32_t sliced = atomic_load_explicit(&entry->sliced, memory_order_acquire);
  if (tid == 0 || tid > INT_MAX || sliced == 0) return false;
  uint64_t original = atomic_load_explicit(&entry->original_slice_ns, memory_order_relaxed);
  uint32_t policy = atomic_load_explicit(&entry->original_policy, memory_order_relaxed);
  bool ours = split_self_here && split_self_here->tid == tid;
  if (!ours && !split_entry_lives(entry, tid)) {
    reclaim(entry, tid);
    return false;
  }
  if (!atomic_compare_exchange_strong(&entry->sliced, &sliced, 0)) return false;
  return split_slice_restore(tid, original, policy);
}

static void release_slices(struct split_mapping *mapping) {
  int before = errno;
  for (uint32_t i = 0; i < mapping->thread_count; i++)
    if (atomic_load_explicit(&mapping->threads[i].sliced, memory_order_relaxed))
      split_entry_release_slice(&mapping->threads[i]);
  errno = before;
}

static void release_affinities(struct split_mapping *mapping) {
  int before = errno;
  for (uint32_t i = 0; i < mapping->thread_count; i++)
    if (atomic_load_explicit(&mapping->threads[i].narrowed, memory_order_relaxed))
      split_entry_release(&mapping->threads[i]);
  errno = before;
}

void split_release_all(struct split_mapping *mapping) {
  release_slices(mapping);
  release_affinities(mapping);
}

void split_release_stale(void) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping) return;
  if (!split_fresh_for_slices(mapping)) release_slices(mapping);
  if (!split_fresh(mapping, 0)) release_affinities(mapping);
}

/* Four times a second, and at the moments when the last sign of life becomes too old. */
static uint64_t until_next_look(struct split_mapping *mapping) {
  uint64_t now = split_clock_ns(CLOCK_MONOTONIC), next = SERVICE_NS;
  const uint64_t limits[] = {SPLIT_SLICE_STALE_NS, SPLIT_STALE_NS};
  for (int i = 0; i < 2; i++) {
    uint64_t stale = atomic_load(&mapping->header->heartbeat_ns) + limits[i];
    if (stale > now && stale - now < next) next = stale - now + 1000000;
  }
  return next < SERVICE_NS ? next : SERVICE_NS;
}

static void *serve(void *argument) {
  struct split_mapping *mapping = argument;
  prctl(PR_SET_NAME, "split");
  while (split_mapping_in_use() == mapping) {
    split_release_stale();
    struct timespec wait = {0, (long)until_next_look(mapping)};
    nanosleep(&wait, NULL);
  }
  return NULL;
}

/* Must run on a thread whose affinity is still wide: the new thread inherits it. */
bool split_service_start(struct split_mapping *mapping) {
  if (split_process.own_service ||
      atomic_load_explicit(&split_process.served, memory_order_relaxed) == mapping) {
    return true;
  }
  if (atomic_exchange(&split_process.served, mapping) == mapping) return true;
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sigfillset(&all);
  /* Signals belong to the host: none must arrive on a thread that it does not know. */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, SERVICE_STACK);
  int failed = pthread_create(&thread, &attributes, serve, mapping);
  if (failed) { /* a host with much thread-local memory needs more stack */
    pthread_attr_setstacksize(&attributes, 1024 * 1024);
    failed = pthread_create(&thread, &attributes, serve, mapping);
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) atomic_store(&split_process.served, NULL);
  return !failed;
}

void split_without_service_thread(void) { split_process.own_service = true; }
