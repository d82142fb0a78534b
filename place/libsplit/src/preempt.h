/*
 * Detects whether a thread was interrupted. If a thread has announced a restartable sequence
 * (rseq(2)) but is not within it, the kernel clears the announcement whenever the thread loses the
 * processor or gets a signal. So libsplit announces an empty sequence at the start of a section and
 * checks it at the end: two stores and a load instead of two getrusage(2).
 *
 * Another user of rseq in the program (an allocator) may announce its own sequence meanwhile: then
 * the result is unknown, and the section's cycles are not used.
 */
#ifndef SPLIT_PREEMPT_H
#define SPLIT_PREEMPT_H

#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if __has_include(<sys/rseq.h>)
#define SPLIT_HAS_RSEQ 1
#else
#define SPLIT_HAS_RSEQ 0
#endif

/* The beginning of the area that the kernel and glibc share with each thread (linux/rseq.h,
 * whose form changed over the years). */
struct split_rseq {
  volatile uint32_t cpu_id_start, cpu_id;
  volatile uint64_t announced; /* address of a split_announcement, or of another one; 0: none */
};
struct split_announcement {
  uint32_t version, flags;
  uint64_t start_ip, post_commit_offset, abort_ip;
} __attribute__((aligned(32)));

/* Counts of what was seen so far, in one word, because each section copies and compares it. */
struct split_preempt_seen {
  alignas(uint64_t) uint32_t interruptions;
  uint32_t unknown;
};
struct split_preempt {
  struct split_rseq *area; /* NULL: glibc registered none; then nothing is detected */
  struct split_preempt_seen seen;
};

static inline bool split_preempt_same(const struct split_preempt_seen *one,
                                      const struct split_preempt_seen *other) {
  uint64_t a, b;
  memcpy(&a, one, sizeof a);
  memcpy(&b, other, sizeof b);
  return a == b;
}

/* Prepares the detection for this thread. */
void split_preempt_open(struct split_preempt *preempt);
/* True if this kernel clears announcements, even those of sleeping threads. Sleeps for a moment. */
bool split_preempt_works(void);

#if SPLIT_HAS_RSEQ
extern const struct split_announcement split_preempt_announcement
    __attribute__((visibility("hidden")));

static inline void split_preempt_arm(struct split_preempt *preempt) {
  if (preempt->area) preempt->area->announced = (uint64_t)(uintptr_t)&split_preempt_announcement;
}

/* Must be called before the library's memory may be freed: the kernel then has no announcement
 * to check. */
static inline void split_preempt_disarm(struct split_preempt *preempt) {
  if (preempt->area) preempt->area->announced = 0;
}

/* Counts what happened since it was armed, and arms it again. An announcement that is still set
 * is left alone: storing it again would erase an interruption between the load and the store,
 * and the sections that stay open would never see it. */
static inline void split_preempt_look(struct split_preempt *preempt) {
  if (!preempt->area) return;
  uint64_t announced = preempt->area->announced;
  if (announced == (uint64_t)(uintptr_t)&split_preempt_announcement) return;
  if (announced == 0)
    preempt->seen.interruptions++;
  else
    preempt->seen.unknown++;
  split_preempt_arm(preempt);
}

/* The same as arming and reading the CPU, if there is an area. */
static inline uint32_t split_preempt_announce(struct split_rseq *area) {
  area->announced = (uint64_t)(uintptr_t)&split_preempt_announcement;
  return area->cpu_id;
}

/* True if nothing happened since it was armed, and the thread is still on this CPU: the same
 * result as from split_preempt_look and the CPU's number. */
static inline bool split_preempt_undisturbed(const struct split_rseq *area, uint32_t cpu) {
  return area->announced == (uint64_t)(uintptr_t)&split_preempt_announcement && area->cpu_id == cpu;
}

static inline uint32_t split_preempt_cpu(const struct split_preempt *preempt) {
  if (preempt->area) return preempt->area->cpu_id;
  int cpu = sched_getcpu();
  return cpu < 0 ? UINT32_MAX : (uint32_t)cpu;
}
#else
static inline void split_preempt_arm(struct split_preempt *preempt) { (void)preempt; }
static inline void split_preempt_disarm(struct split_preempt *preempt) { (void)preempt; }
static inline void split_preempt_look(struct split_preempt *preempt) { (void)preempt; }
/* Never called: without an area each section is special. */
static inline uint32_t split_preempt_announce(struct split_rseq *area) { return area->cpu_id; }
static inline bool split_preempt_undisturbed(const struct split_rseq *area, uint32_t cpu) {
  (void)area;
  (void)cpu;
  return false;
}
static inline uint32_t split_preempt_cpu(const struct split_preempt *preempt) {
  (void)preempt;
  int cpu = sched_getcpu();
  return cpu < 0 ? UINT32_MAX : (uint32_t)cpu;
}
#endif

#endif
