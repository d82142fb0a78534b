/*
 * Finds a thread's rseq area, and tests whether the kernel clears announcements. preempt.h has the
 * mechanism.
 */
#include "preempt.h"

#include <time.h>

#if SPLIT_HAS_RSEQ
#include <sys/rseq.h>

/* The kernel checks an announcement before it clears it: the sequence must not contain the
 * running code, and the four bytes before its abort address must be the signature that glibc
 * registered. Otherwise it kills the process. This code is never executed. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
__asm__(
    ".pushsection .text.split_preempt, \"ax\"\n"
    ".balign 16\n"
    ".globl split_preempt_begin\n"
    ".hidden split_preempt_begin\n"
    "split_preempt_begin:\n"
    "  nop\n"
    "  .balign 16\n"
    "  .long 0\n"
    "  .long " TEXT(RSEQ_SIG) "\n"
    ".globl split_preempt_abort\n"
    ".hidden split_preempt_abort\n"
    "split_preempt_abort:\n"
    "  nop\n"
    ".popsection\n");
extern const char split_preempt_begin[] __attribute__((visibility("hidden")));
extern const char split_preempt_abort[] __attribute__((visibility("hidden")));

const struct split_announcement split_preempt_announcement = {
    .start_ip = (uintptr_t)split_preempt_begin,
    .post_commit_offset = 1,
    .abort_ip = (uintptr_t)split_preempt_abort,
};

void split_preempt_open(struct split_preempt *preempt) {
  preempt->area = NULL;
  if (__rseq_size == 0) return;
  struct split_rseq *area =
      (struct split_rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
  if ((int32_t)area->cpu_id < 0) return; /* registered for other threads, not for this one */
  preempt->area = area;
}

bool split_preempt_works(void) {
  struct split_preempt preempt = {0};
  split_preempt_open(&preempt);
  if (!preempt.area) return false;
  /* Another library's announcement, whose sequence cannot contain this code; restored
   * afterwards, so nothing changes for that library. */
  uint64_t before = preempt.area->announced;
  split_preempt_arm(&preempt);
  struct timespec wait = {0, 50000};
  nanosleep(&wait, NULL);
  split_preempt_look(&preempt);
  preempt.area->announced = before;
  return preempt.seen.interruptions == 1;
}
#else
void split_preempt_open(struct split_preempt *preempt) { preempt->area = 0; }
bool split_preempt_works(void) { return false; }
#endif
