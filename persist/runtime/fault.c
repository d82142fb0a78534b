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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static p3l_fault_handler handler;
static void *handler_state;

void p3l_on_fault(p3l_fault_handler new_handler, void *state) {
  pthread_mutex_lock(&lock);
  handler = new_handler;
  handler_state = state;
  pthread_mutex_unlock(&lock);
}

void p3l_raise(const p3l_error *error) {
  pthread_mutex_lock(&lock);
  p3l_fault_handler told = handler;
  void *state = handler_state;
  pthread_mutex_unlock(&lock);

  if (told != NULL) {
    told(state, error);
    fputs(
        "p3l: the handler of p3l_on_fault() returned; it must end the process, longjmp or throw\n",
        stderr);
  }
  fprintf(stderr, "p3l: %s (%s)\n", error->message, p3l_code_name(error->code));
  abort();
}
