#include "preempt.h"

#include <time.h>

#if SPLIT_HAS_RSEQ
#include <sys/rseq.h>

/* The kernel looks at an announcement before it takes it back: the sequence must be outside of what runs, and the four bytes before
 * its abort address must be the signature with which glibc registered. Else it kills the process. Nothing of this is ever executed. */
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
  if ((int32_t)area->cpu_id < 0) return; /* registered for others, not for this thread */
  preempt->area = area;
}

bool split_preempt_works(void) {
  struct split_preempt preempt = {0};
  split_preempt_open(&preempt);
  if (!preempt.area) return false;
  /* The announcement of other code, whose sequence this code cannot be in; restored, so that nothing changes for it. */
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
