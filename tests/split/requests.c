/*
 * A server without a network: threads that work on requests of kinds with known footprints, each in
 * a section of libsplit, until standard input ends.
 *
 *   requests DIRECTORY APP THREADS KIND...      KIND: name:kilobytes:passes, or name:sleep:milliseconds
 */
#include "kernels.h"
#include "split.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct kind {
  const char *name;
  long kilobytes; /* 0: it sleeps */
  long passes;
};
static struct kind kinds[16];
static int kinds_count;
static atomic_bool over;

static void *work(void *unused) {
  (void)unused;
  struct section_kernel *kernels[16] = {0};
  for (int k = 0; k < kinds_count; k++)
    if (kinds[k].kilobytes > 0)
      kernels[k] = section_kernel_open(SECTION_STREAM, (size_t)kinds[k].kilobytes << 10, 1);
  for (int k = 0; !atomic_load(&over); k = (k + 1) % kinds_count) {
    split_start(0, kinds[k].name);
    if (kernels[k] != NULL)
      section_kernel_run(kernels[k], (unsigned)kinds[k].passes);
    else
      nanosleep(&(struct timespec){kinds[k].passes / 1000, kinds[k].passes % 1000 * 1000000}, NULL);
    split_end();
  }
  for (int k = 0; k < kinds_count; k++)
    if (kernels[k] != NULL) section_kernel_close(kernels[k]);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 5 || argc > 4 + 16) return 2;
  for (int i = 4; i < argc; i++) {
    char *size = strchr(argv[i], ':');
    char *passes = size == NULL ? NULL : strchr(size + 1, ':');
    if (passes == NULL) return 2;
    *size = *passes = '\0';
    kinds[kinds_count++] =
        (struct kind){argv[i], strtol(size + 1, NULL, 10), strtol(passes + 1, NULL, 10)};
  }
  split_configure(argv[1]);
  if (split_init_named("requests", (split_app_id)atoi(argv[2]), 0, SPLIT_KEY_TEXT) == 0) {
    fprintf(stderr, "%s\n", split_problem());
    return 1;
  }
  pthread_t threads[16];
  int count = atoi(argv[3]);
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
  puts("ready");
  fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  atomic_store(&over, true);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  split_close();
  return 0;
}
