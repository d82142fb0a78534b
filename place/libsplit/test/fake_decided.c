/* Decisions for tests of the class queues. fake_decided.h describes the functions. */
#include "fake_decided.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct split_decided decisions[FAKE_CODES];
static _Atomic bool placing;
static _Atomic uint64_t refused;
static _Thread_local struct {
  bool narrowed;
  cpu_set_t original;
} thread;

void fake_reset(void) {
  memset(decisions, 0, sizeof(decisions));
  placing = false;
  refused = 0;
}

void fake_place(bool on) { placing = on; }
void fake_refuse(uint64_t mask) { refused = mask; }

void fake_decide_as(uint8_t code, uint8_t actuation, uint32_t queue, uint64_t mask) {
  pthread_mutex_lock(&lock);
  const uint32_t sequence = decisions[code].sequence + 2;
  decisions[code] = (struct split_decided){
      .sequence = sequence, .actuation = actuation, .queue = queue, .cpu_mask = {mask}};
  pthread_mutex_unlock(&lock);
}

void fake_decide(uint8_t code, uint32_t queue, uint64_t mask) {
  fake_decide_as(code, SPLIT_ACT_SOFT, queue, mask);
}

split_code_id split_kind_of(const void *key, size_t length) {
  return length == 1 ? *(const uint8_t *)key % FAKE_CODES : SPLIT_CODE_NONE;
}

bool split_placing(uint64_t now_ns) {
  (void)now_ns;
  return placing;
}

uint32_t split_decision_sequence(split_code_id code) {
  pthread_mutex_lock(&lock);
  const uint32_t sequence = decisions[code].sequence;
  pthread_mutex_unlock(&lock);
  return sequence;
}

bool split_decided(split_code_id code, struct split_decided *decided) {
  pthread_mutex_lock(&lock);
  *decided = decisions[code];
  pthread_mutex_unlock(&lock);
  return true;
}

bool split_thread_narrow(const uint64_t cpu_mask[SPLIT_CPUS_MAX / 64]) {
  if (cpu_mask[0] & refused) return false;
  if (!thread.narrowed && sched_getaffinity(0, sizeof(thread.original), &thread.original) != 0)
    return false;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (unsigned cpu = 0; cpu < 64; cpu++)
    if (cpu_mask[0] >> cpu & 1) CPU_SET(cpu, &cpus);
  thread.narrowed = sched_setaffinity(0, sizeof(cpus), &cpus) == 0;
  return thread.narrowed;
}

void split_thread_widen(void) {
  if (thread.narrowed) (void)sched_setaffinity(0, sizeof(thread.original), &thread.original);
  thread.narrowed = false;
}

bool split_thread_is_narrowed(void) { return thread.narrowed; }
