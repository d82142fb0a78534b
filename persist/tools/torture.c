/*
 * torture: a writer that is killed at random moments, and an oracle that knows what must be there
 * afterwards.
 *
 *   parent                                   child
 *   fork ──────────────────────────────────> open the store (which recovers)
 *   sleep for a random time                  transaction t: make, link, change, delete objects as
 *   read acknowledgements   <──── pipe ───── t says; commit; "t is committed"
 *   SIGKILL ───────────────────────────────> (dies anywhere)
 *   open, check, close; again
 *
 * What transaction t does follows from the seed, t and the objects before it (torture_model.h). So
 * the parent, who has a model of them, carries out on it what the child has acknowledged, and then
 * compares store and model object by object, slot by slot. The state after one transaction more is
 * right, too: it was committed, and the child died before it could say so.
 */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "torture_model.h"
#include "torture_readers.h"

typedef struct torture {
  const char *folder;
  unsigned long kills;
  uint64_t seed;
  char path[4096];
  model *model;              /* the store as it should be */
  unsigned long kill_number; /* the last */
  uint64_t interrupted, recovered;
  unsigned long reader_count;
  p3l_torture_readers *readers; /* NULL: none */
} torture;

/* A checkpoint every few transactions, so that checkpoints are interrupted too. */
static const p3l_options writing = {.checkpoint_bytes = 256 << 10};

/* ---- the child ---- */

__attribute__((noreturn)) static void give_up(const char *sentence) {
  fprintf(stderr, "p3l: the writer failed: %s\n", sentence);
  _exit(1);
}

static void give_up_on_fault(void *state, const p3l_error *error) {
  (void)state;
  give_up(error->message);
}

__attribute__((noreturn)) static void child(const torture *torture, int acknowledge) {
  p3l_store *store;
  p3l_error error;
  p3l_on_fault(give_up_on_fault, NULL);
  if (p3l_open(torture->path, &writing, &store, &error) != P3L_OK) give_up(error.message);
  for (uint64_t t = torture->model->transaction + 1;; t++) {
    if (p3l_begin(store, &error) != P3L_OK) give_up(error.message);
    if (!model_transaction(torture->model, store, t)) give_up(p3l_failure(store)->message);
    if (p3l_commit(store, &error) != P3L_OK) give_up(error.message);
    if (write(acknowledge, &t, sizeof(t)) != (ssize_t)sizeof(t)) _exit(3);
  }
}

/* ---- the parent ---- */

/* Returns the number of the last transaction that was acknowledged before the child died. */
static uint64_t acknowledged(int from, uint64_t last) {
  uint64_t t;
  ssize_t got;
  while ((got = read(from, &t, sizeof(t))) == (ssize_t)sizeof(t) || (got < 0 && errno == EINTR))
    if (got > 0) last = t;
  return last;
}

static int complain(const torture *torture, unsigned long kill_number, const char *sentence) {
  printf("kill %lu (seed %llu): %s\nthe store is left at %s\n", kill_number,
         (unsigned long long)torture->seed, sentence, torture->path);
  return 1;
}

/* Reports a pointer of the store that cannot be followed. */
static void complain_of_fault(void *state, const p3l_error *error) {
  const torture *torture = state;
  complain(torture, torture->kill_number, error->message);
  exit(1);
}

static void print_fault(void *state, const char *sentence) {
  (void)state;
  printf("%s\n", sentence);
}

/* Verifies pages, lists, objects and pointers before the contents are compared. `objects`: the
 * number of objects. */
static int verify(torture *torture, unsigned long kill_number, uint64_t *objects) {
  p3l_pager *pager;
  p3l_error error;
  p3l_recovery recovery;
  p3l_verification pages;
  p3l_object_verification found = {0};
  p3l_survey survey = {0};
  p3l_listener listener = {.fault = print_fault};
  p3l_pager_options options = {.read_only = true};
  if (p3l_pager_open(torture->path, &options, &pager, &recovery, &error) != P3L_OK)
    return complain(torture, kill_number, error.message);
  torture->interrupted += recovery.interrupted;
  torture->recovered += recovery.transactions;
  p3l_code code = p3l_pager_verify(pager, print_fault, NULL, &pages, &error);
  if (code == P3L_OK) code = p3l_survey_begin(&survey, pager, &listener, &error);
  if (code == P3L_OK) code = p3l_objects_verify(&survey, &found, &error);
  int status = 0;
  if (code != P3L_OK)
    status = complain(torture, kill_number, error.message);
  else if (pages.faults + survey.faults + found.dangling > 0)
    status = complain(torture, kill_number, "the store does not verify");
  *objects = found.objects + found.large_objects;
  p3l_survey_end(&survey);
  p3l_pager_close(pager, NULL);
  return status;
}

static int check(torture *torture, uint64_t at_least, unsigned long kill_number) {
  p3l_store *store;
  p3l_error error;
  char sentence[256];
  p3l_options options = writing;
  options.read_only = kill_number % 2 == 0;
  uint64_t objects = 0;
  int status = verify(torture, kill_number, &objects);
  if (status != 0) return status;
  if (p3l_open(torture->path, &options, &store, &error) != P3L_OK)
    return complain(torture, kill_number, error.message);
  uint64_t found = model_last_of(store);
  if (found < at_least || found > at_least + 1) {
    snprintf(sentence, sizeof(sentence),
             "transaction %llu was acknowledged, the store ends with %llu",
             (unsigned long long)at_least, (unsigned long long)found);
    status = complain(torture, kill_number, sentence);
  }
  for (uint64_t t = torture->model->transaction + 1; t <= found && status == 0; t++)
    model_transaction(torture->model, NULL, t);
  if (status == 0 && !model_equals(torture->model, store, sentence, sizeof(sentence)))
    status = complain(torture, kill_number, sentence);
  if (status == 0 && objects != torture->model->alive + MODEL_OWN)
    status = complain(torture, kill_number, "there are objects that the writer did not make");
  if (p3l_close(store, &error) != P3L_OK && status == 0)
    status = complain(torture, kill_number, error.message);
  return status;
}

/* Without a reader, a writer must leave no history files. */
static int check_history_files(const torture *torture) {
  p3l_store *store;
  p3l_error error;
  char pattern[4200];
  glob_t found;
  if (p3l_open(torture->path, &writing, &store, &error) != P3L_OK ||
      p3l_close(store, &error) != P3L_OK)
    return complain(torture, torture->kills, error.message);
  snprintf(pattern, sizeof(pattern), "%s-old-*", torture->path);
  if (glob(pattern, 0, NULL, &found) == GLOB_NOMATCH) return 0;
  globfree(&found);
  return complain(torture, torture->kills, "old pages stay that no process reads");
}

static int prepare(torture *torture) {
  p3l_error error;
  p3l_store *store;
  p3l_options options = {.create = true};
  snprintf(torture->path, sizeof(torture->path), "%s/torture-%llu-%ld", torture->folder,
           (unsigned long long)torture->seed, (long)getpid());
  torture->model = model_new(torture->seed);
  p3l_code code = p3l_open(torture->path, &options, &store, &error);
  if (code == P3L_OK) {
    code = p3l_begin(store, &error);
    if (code == P3L_OK) {
      model_begin(store); /* if it fails, so does the commit */
      code = p3l_commit(store, &error);
    }
    p3l_code closed = p3l_close(store, code == P3L_OK ? &error : NULL);
    if (code == P3L_OK) code = closed;
  }
  if (code != P3L_OK) fprintf(stderr, "p3l: %s\n", error.message);
  return code == P3L_OK ? 0 : 1;
}

static int kill_once(torture *torture, unsigned long kill_number) {
  int ends[2];
  if (pipe(ends) != 0) {
    fprintf(stderr, "p3l: no pipe: %s\n", strerror(errno));
    return 1;
  }
  pid_t pid = fork();
  if (pid < 0) {
    fprintf(stderr, "p3l: no process: %s\n", strerror(errno));
    return 1;
  }
  if (pid == 0) {
    close(ends[0]);
    child(torture, ends[1]);
  }
  close(ends[1]);
  /* Some kills come during recovery, others after hundreds of commits. */
  uint64_t nanoseconds =
      model_mix(torture->seed ^ kill_number << 20) % (kill_number % 4 == 0 ? 40000000 : 4000000);
  struct timespec pause = {.tv_nsec = (long)nanoseconds};
  nanosleep(&pause, NULL);
  if (torture->readers != NULL)
    p3l_torture_readers_disturb(torture->readers, torture->model, model_mix(nanoseconds));
  kill(pid, SIGKILL);
  uint64_t at_least = acknowledged(ends[0], torture->model->transaction);
  close(ends[0]);
  int how;
  waitpid(pid, &how, 0);
  if (WIFEXITED(how)) return complain(torture, kill_number, "the writer ended on its own");
  int status = check(torture, at_least, kill_number);
  if (status == 0 && torture->readers != NULL &&
      p3l_torture_readers_check(torture->readers, torture->model) != 0)
    status = complain(torture, kill_number, "a reader or a backup failed");
  return status;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  torture *torture = state->input;
  char *end = NULL;
  switch (key) {
    case 'k':
      torture->kills = strtoul(value, &end, 10);
      if (*end != '\0' || torture->kills == 0)
        argp_error(state, "--kills takes a number above 0, not %s", value);
      return 0;
    case 's':
      torture->seed = strtoull(value, &end, 10);
      if (*end != '\0') argp_error(state, "--seed takes a number, not %s", value);
      return 0;
    case 'r':
      torture->reader_count = strtoul(value, &end, 10);
      if (*end != '\0' || torture->reader_count > 1000)
        argp_error(state, "--readers takes a number up to 1000, not %s", value);
      return 0;
    case ARGP_KEY_ARG:
      if (torture->folder != NULL) argp_error(state, "one folder");
      torture->folder = value;
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "in which FOLDER?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

int p3l_run_torture(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"kills", 'k', "N", 0, "how often the writer is killed (1000)", 0},
      {"readers", 'r', "N", 0,
       "processes that read beside the writer and are killed, too; with backups (0)", 0},
      {"seed", 's', "N", 0, "for the same choices again (the time)", 0},
      {0}};
  struct argp argp = {
      options,
      parse,
      "FOLDER",
      "Makes a store in FOLDER, lets a process make, link, change and delete objects in it, kills "
      "the process at random moments, and checks after each kill that every acknowledged "
      "transaction is there, whole.\v"
      "Example: p3l torture --kills 10000 /var/tmp\n"
      "The store is removed if nothing was lost, and kept otherwise. A killed process loses no "
      "page of the kernel's cache; what a power failure may leave is tried by test_crash and "
      "test_transaction_power.",
      0,
      0,
      0};
  torture torture = {.kills = 1000, .seed = (uint64_t)time(NULL)};
  argp_err_exit_status = 2;
  argp_parse(&argp, argc, argv, 0, NULL, &torture);
  p3l_on_fault(complain_of_fault, &torture);
  int status = prepare(&torture);
  if (status == 0 && torture.reader_count > 0) {
    torture.readers =
        p3l_torture_readers_start(torture.path, torture.model, (unsigned)torture.reader_count);
    if (torture.readers == NULL) status = complain(&torture, 0, "no memory for readers");
  }
  for (unsigned long n = 1; n <= torture.kills && status == 0; n++) {
    torture.kill_number = n;
    status = kill_once(&torture, n);
    if (isatty(STDERR_FILENO) && n % 100 == 0)
      fprintf(stderr, "\r%lu of %lu kills", n, torture.kills);
  }
  if (torture.readers != NULL && p3l_torture_readers_end(torture.readers, torture.model) != 0 &&
      status == 0)
    status = complain(&torture, torture.kills, "a reader or a backup failed");
  if (status == 0) status = check_history_files(&torture);
  if (status != 0) return status;
  printf(
      "%lu kills, %llu transactions committed, %llu carried out again by recovery, %llu "
      "interrupted: none lost, none "
      "half (seed %llu)\n",
      torture.kills, (unsigned long long)torture.model->transaction,
      (unsigned long long)torture.recovered, (unsigned long long)torture.interrupted,
      (unsigned long long)torture.seed);
  char log_path[4200];
  snprintf(log_path, sizeof(log_path), "%s-log", torture.path);
  unlink(log_path);
  unlink(torture.path);
  free(torture.model);
  return 0;
}
