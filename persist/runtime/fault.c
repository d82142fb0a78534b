/*
 * The handler for failures that no return value can report.
 *
 * Invariant: the handler and its state are read and written together, under the lock; the handler
 * is called without the lock.
 */
#include "fault.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static p3l_fault_handler handler;
static void *handler_state;

void p3l_on_fault(p3l_fault_handler new_handler, void *state) {
  pthread_mutex_lock(&lock);
  handler = new_handler;
  handler_state = state;
  pthread_mutex_unlock(&lock);
}

/* Not by stdio: this may be a signal handler, and the thread may hold the lock of stderr. */
static void say(const char *sentence) {
  char line[sizeof(p3l_error) + 128];
  int length = snprintf(line, sizeof(line), "p3l: %s\n", sentence);
  if (length <= 0) return;
  size_t bytes = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
  if (write(STDERR_FILENO, line, bytes) < 0) return; /* the process ends in any case */
}

void p3l_raise(const p3l_error *error) {
  pthread_mutex_lock(&lock);
  p3l_fault_handler told = handler;
  void *state = handler_state;
  pthread_mutex_unlock(&lock);

  if (told != NULL) {
    told(state, error);
    say("the handler of p3l_on_fault() returned; it must end the process, longjmp or throw");
  }
  char sentence[sizeof(error->message) + 64];
  snprintf(sentence, sizeof(sentence), "%s (%s)", error->message, p3l_code_name(error->code));
  say(sentence);
  abort();
}
