/*
 * Detects if this process was forked from the process that opened the store. The test costs one
 * load: a handler in the child counts the forks.
 */
#include "images.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned forks; /* between the first process that opened a store and this one */

static void forked(void) { __atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED); }
static void watch(void) { pthread_atfork(NULL, NULL, forked); }

unsigned p3l_forks(void) {
  pthread_once(&once, watch);
  return __atomic_load_n(&forks, __ATOMIC_RELAXED);
}

bool p3l_pager_is_inherited(const p3l_pager *pager) {
  return pager->forks != __atomic_load_n(&forks, __ATOMIC_RELAXED);
}

p3l_code p3l_pager_inherited(const p3l_pager *pager, p3l_error *error) {
  if (!p3l_pager_is_inherited(pager)) return P3L_OK;
  return p3l_fail(error, P3L_MISUSE,
                  "%s was opened by the process that this one was forked from, and is that one's "
                  "alone; fork before the store is opened, or execute a program of its own",
                  pager->path);
}
