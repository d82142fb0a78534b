/* Readers and backups beside a writer that is killed; see torture_readers.h. */
#include "torture_readers.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

/* Counters shared by the processes. */
typedef struct counts {
  uint64_t versions, refreshes, opens;
} counts;

struct p3l_torture_readers {
  const char *path;
  char copy[4200];
  counts *counts; /* shared */
  unsigned count;
  uint64_t killed, backups, unfinished;
  pid_t backup; /* 0: none */
  pid_t pids[];
};

static uint64_t add(uint64_t *count) { return __atomic_add_fetch(count, 1, __ATOMIC_RELAXED); }

/* ---- a reader ---- */

static __attribute__((noreturn)) void give_up(const char *who, const char *sentence) {
  printf("%s: %s\n", who, sentence);
  fflush(stdout);
  _exit(1);
}

static void give_up_on_fault(void *state, const p3l_error *error) {
  give_up(state, error->message);
}

/* Advances the model to the version of the store and compares the two. */
static void compare(model *model, p3l_store *store, const char *who) {
  char sentence[256];
  uint64_t last = model_last_of(store);
  if (last < model->transaction) {
    snprintf(sentence, sizeof(sentence), "sees transaction %llu after transaction %llu",
             (unsigned long long)last, (unsigned long long)model->transaction);
    give_up(who, sentence);
  }
  while (model->transaction < last) model_transaction(model, NULL, model->transaction + 1);
  if (!model_equals(model, store, sentence, sizeof(sentence))) give_up(who, sentence);
}

/* Runs until it is killed. Reads objects in place, copied in the order of discovery, and
 * evicted. */
static __attribute__((noreturn)) void read_on(const p3l_torture_readers *readers, const model *from,
                                              uint64_t choice) {
  static char who[] = "a reader";
  p3l_store *store;
  p3l_error error;
  p3l_options options = {.read_only = true,
                         .discovery_order = choice % 3 == 1,
                         .memory_bytes = choice % 3 == 2 ? 4 << 20 : 0};
  model *model = model_new(0);
  *model = *from;
  p3l_on_fault(give_up_on_fault, who);
  for (;;) {
    if (p3l_open(readers->path, &options, &store, &error) != P3L_OK) give_up(who, error.message);
    add(&readers->counts->opens);
    for (int refreshes = 0; refreshes < 20; refreshes++) {
      compare(model, store, who);
      add(&readers->counts->versions);
      /* Compares again, with slots that were healed. */
      if (refreshes % 4 == 0) compare(model, store, who);
      if (p3l_refresh(store, &error) != P3L_OK) give_up(who, error.message);
      add(&readers->counts->refreshes);
    }
    if (p3l_close(store, &error) != P3L_OK) give_up(who, error.message);
  }
}

static pid_t start_reader(const p3l_torture_readers *readers, const model *model, uint64_t choice) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) read_on(readers, model, choice);
  return pid;
}

/* ---- a backup ---- */

/* Copies one version, verifies the copy and compares it with the model. */
static __attribute__((noreturn)) void copy_and_compare(const p3l_torture_readers *readers,
                                                       const model *from) {
  static char who[] = "a backup";
  p3l_pager *pager;
  p3l_store *store;
  p3l_error error;
  p3l_pager_options options = {.read_only = true};
  p3l_options reading = {.read_only = true};
  model *model = model_new(0);
  *model = *from;
  p3l_on_fault(give_up_on_fault, who);
  FILE *nowhere = fopen("/dev/null", "w");
  if (nowhere == NULL) give_up(who, "no /dev/null");
  if (p3l_pager_open(readers->path, &options, &pager, NULL, &error) != P3L_OK)
    give_up(who, error.message);
  if (p3l_backup_store(pager, readers->copy, nowhere) != 0) give_up(who, "failed");
  p3l_pager_close(pager, NULL);
  if (p3l_open(readers->copy, &reading, &store, &error) != P3L_OK) give_up(who, error.message);
  compare(model, store, who);
  _exit(0);
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void remove_copy(const p3l_torture_readers *readers) {
  const char *ends[] = {"", "-log", "-new", "-new-log"};
  char name[4300];
  for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
    snprintf(name, sizeof(name), "%s%s", readers->copy, ends[i]);
    unlink(name);
  }
}

/* A copy under its final name is complete, even if the process that made it was killed. */
static int check_copy(const p3l_torture_readers *readers) {
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options options = {.read_only = true};
  if (!exists(readers->copy)) return 0;
  FILE *nowhere = fopen("/dev/null", "w");
  int status =
      nowhere == NULL || p3l_pager_open(readers->copy, &options, &pager, NULL, &error) != P3L_OK;
  if (status == 0) {
    status = p3l_verify_store(pager, nowhere);
    p3l_pager_close(pager, NULL);
  }
  if (nowhere != NULL) fclose(nowhere);
  if (status != 0) printf("the copy at %s is not whole\n", readers->copy);
  return status;
}

/* ---- all of them ---- */

p3l_torture_readers *p3l_torture_readers_start(const char *path, const model *model,
                                               unsigned count) {
  p3l_torture_readers *readers = calloc(1, sizeof(*readers) + count * sizeof(pid_t));
  if (readers == NULL) return NULL;
  readers->path = path;
  readers->count = count;
  snprintf(readers->copy, sizeof(readers->copy), "%s-copy", path);
  readers->counts =
      mmap(NULL, sizeof(counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (readers->counts == MAP_FAILED) {
    free(readers);
    return NULL;
  }
  for (unsigned at = 0; at < count; at++) readers->pids[at] = start_reader(readers, model, at);
  return readers;
}

void p3l_torture_readers_disturb(p3l_torture_readers *readers, const model *model,
                                 uint64_t choice) {
  if (readers->backup == 0 && choice % 4 == 0) {
    fflush(NULL);
    readers->backup = fork();
    if (readers->backup == 0) copy_and_compare(readers, model);
    readers->backups++;
  }
  unsigned at = (unsigned)(choice >> 8) % readers->count;
  if (choice % 3 == 0 && readers->pids[at] > 0 && kill(readers->pids[at], SIGKILL) == 0)
    readers->killed++;
  if (readers->backup > 0 && (choice >> 16) % 2 == 0) kill(readers->backup, SIGKILL);
}

static bool ended_badly(int how) {
  return !(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) &&
         !(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static int check_backup(p3l_torture_readers *readers, int options) {
  int how;
  if (readers->backup <= 0 || waitpid(readers->backup, &how, options) == 0) return 0;
  readers->backup = 0;
  if (!exists(readers->copy)) readers->unfinished++;
  int status = ended_badly(how) || check_copy(readers) != 0;
  remove_copy(readers);
  return status;
}

int p3l_torture_readers_check(p3l_torture_readers *readers, const model *model) {
  for (unsigned at = 0; at < readers->count; at++) {
    int how;
    if (readers->pids[at] > 0 && waitpid(readers->pids[at], &how, WNOHANG) == 0) continue;
    if (readers->pids[at] > 0 && ended_badly(how)) {
      printf("a reader ended on its own\n");
      return 1;
    }
    readers->pids[at] = start_reader(readers, model, model->transaction + at);
  }
  return check_backup(readers, WNOHANG);
}

int p3l_torture_readers_end(p3l_torture_readers *readers, const model *model) {
  int status = p3l_torture_readers_check(readers, model);
  for (unsigned at = 0; at < readers->count; at++) {
    int how;
    if (readers->pids[at] <= 0) continue;
    kill(readers->pids[at], SIGKILL);
    if (waitpid(readers->pids[at], &how, 0) > 0 && ended_badly(how)) status = 1;
  }
  if (check_backup(readers, 0) != 0) status = 1;
  const counts *counts = readers->counts;
  printf(
      "%u readers, killed %llu times: %llu versions compared, %llu refreshes; %llu backups, %llu "
      "of "
      "them killed\n",
      readers->count, (unsigned long long)readers->killed, (unsigned long long)counts->versions,
      (unsigned long long)counts->refreshes, (unsigned long long)readers->backups,
      (unsigned long long)readers->unfinished);
  munmap(readers->counts, sizeof(*readers->counts));
  free(readers);
  return status;
}
