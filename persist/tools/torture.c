/*
 * torture: a writer that is killed at random moments, and an oracle that knows what must be there
 * afterwards.
 *
 *   parent                                   child
 *   fork ──────────────────────────────────> open the store (which recovers)
 *   sleep for a random time                  transaction t: write t into the pages it chooses;
 *   read acknowledgements   <──── pipe ───── commit; "t is committed"
 *   SIGKILL ───────────────────────────────> (dies anywhere)
 *   open, check, close; again
 *
 * Page 1 holds the number of the last transaction. Every other page holds the number of the last
 * transaction that chose it, in all its words, which follows from that number alone. So the state
 * after transaction t is known without a record of it, and a half transaction shows as a page that
 * is ahead of or behind its number.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "p3l.h"
#include "pager.h"

enum { PAGES = 24, WORDS = (P3L_PAGE_SIZE - 32) / 8 };

typedef struct torture {
  const char *folder;
  unsigned long kills;
  uint64_t seed;
  char path[4096];
  /* of the store as it should be */
  uint64_t last;
  uint64_t page[PAGES]; /* page[p]: the last transaction that chose page p + 2 */
  uint64_t interrupted, recovered;
} torture;

static uint64_t mix(uint64_t x) { /* splitmix64's finalizer */
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* A third of all pages, now and then all of them. */
static bool chooses(uint64_t seed, uint64_t transaction, int page) {
  return transaction % 64 == 0 || mix(seed + transaction * PAGES + (uint64_t)page) % 3 == 0;
}

static void fill(p3l_page *page, uint64_t transaction) {
  uint64_t *words = (uint64_t *)page->payload;
  for (int w = 0; w < WORDS; w++) words[w] = transaction;
}

/* ---- the child ---- */

static p3l_code write_page(p3l_pager_transaction *transaction, uint64_t number, uint64_t value,
                           p3l_error *error) {
  p3l_page *page;
  p3l_code code = p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, error);
  if (code != P3L_OK) return code;
  fill(page, value);
  p3l_page_changed(transaction, page, offsetof(p3l_page, payload), WORDS * 8);
  return P3L_OK;
}

static p3l_code run_transaction(p3l_pager *pager, const torture *torture, uint64_t t,
                                p3l_error *error) {
  p3l_pager_transaction *transaction;
  p3l_code code = p3l_pager_begin(pager, &transaction, error);
  if (code != P3L_OK) return code;
  code = write_page(transaction, 1, t, error);
  for (int p = 0; p < PAGES && code == P3L_OK; p++)
    if (chooses(torture->seed, t, p)) code = write_page(transaction, (uint64_t)p + 2, t, error);
  if (code == P3L_OK) return p3l_pager_commit(transaction, error);
  p3l_pager_abort(transaction);
  return code;
}

static void child(const torture *torture, int acknowledge) {
  p3l_pager *pager;
  p3l_error error;
  /* A checkpoint every few transactions: they must be killed in the middle too. */
  p3l_pager_options options = {.checkpoint_bytes = 256 << 10};
  p3l_code code = p3l_pager_open(torture->path, &options, &pager, NULL, &error);
  for (uint64_t t = torture->last + 1; code == P3L_OK; t++) {
    code = run_transaction(pager, torture, t, &error);
    if (code == P3L_OK && write(acknowledge, &t, sizeof(t)) != (ssize_t)sizeof(t)) _exit(3);
  }
  fprintf(stderr, "p3l: the writer failed: %s\n", error.message);
  _exit(1);
}

/* ---- the parent ---- */

/* The number of the last transaction that was acknowledged before the child died. */
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

static void print_fault(void *state, const char *sentence) {
  (void)state;
  printf("%s\n", sentence);
}

static int check(torture *torture, uint64_t at_least, unsigned long kill_number) {
  p3l_pager *pager;
  p3l_error error;
  p3l_recovery recovery;
  p3l_verification verification;
  p3l_pager_options options = {.read_only = kill_number % 2 == 0};
  p3l_page page;
  char sentence[256];
  if (p3l_pager_open(torture->path, &options, &pager, &recovery, &error) != P3L_OK)
    return complain(torture, kill_number, error.message);
  torture->interrupted += recovery.interrupted;
  torture->recovered += recovery.transactions;
  int status = 0;
  uint64_t found = 0;
  if (p3l_pager_verify(pager, print_fault, NULL, &verification, &error) != P3L_OK ||
      verification.faults > 0)
    status = complain(torture, kill_number, "the store does not verify");
  if (status == 0 && p3l_pager_read(pager, (p3l_page_number){1}, &page, &error) == P3L_OK)
    memcpy(&found, page.payload, sizeof(found));
  if (status == 0 && (found < at_least || found > at_least + 1)) {
    snprintf(sentence, sizeof(sentence),
             "transaction %llu was acknowledged, the store ends with %llu",
             (unsigned long long)at_least, (unsigned long long)found);
    status = complain(torture, kill_number, sentence);
  }
  for (uint64_t t = torture->last + 1; t <= found; t++)
    for (int p = 0; p < PAGES; p++)
      if (chooses(torture->seed, t, p)) torture->page[p] = t;
  torture->last = found;
  for (int p = 0; p < PAGES && status == 0; p++) {
    p3l_page expected;
    fill(&expected, torture->page[p]);
    if (p3l_pager_read(pager, (p3l_page_number){(uint64_t)p + 2}, &page, &error) != P3L_OK) {
      status = complain(torture, kill_number, error.message);
    } else if (memcmp(page.payload, expected.payload, WORDS * 8) != 0) {
      snprintf(sentence, sizeof(sentence), "page %d is not as transaction %llu left it", p + 2,
               (unsigned long long)torture->page[p]);
      status = complain(torture, kill_number, sentence);
    }
  }
  p3l_pager_close(pager, NULL);
  return status;
}

static int prepare(torture *torture) {
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_transaction *transaction;
  p3l_pager_options options = {0};
  p3l_page_number number;
  p3l_page *page;
  snprintf(torture->path, sizeof(torture->path), "%s/torture-%llu-%ld", torture->folder,
           (unsigned long long)torture->seed, (long)getpid());
  p3l_code code = p3l_store_create(torture->path, &error);
  if (code == P3L_OK) code = p3l_pager_open(torture->path, &options, &pager, NULL, &error);
  if (code != P3L_OK) {
    fprintf(stderr, "p3l: %s\n", error.message);
    return 1;
  }
  code = p3l_pager_begin(pager, &transaction, &error);
  for (int p = 0; p < PAGES + 1 && code == P3L_OK; p++)
    code = p3l_page_allocate(transaction, &number, &page, &error);
  if (code == P3L_OK) code = p3l_pager_commit(transaction, &error);
  p3l_pager_close(pager, NULL);
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
  /* From dying while recovering to dying after hundreds of commits. */
  uint64_t nanoseconds =
      mix(torture->seed ^ kill_number << 20) % (kill_number % 4 == 0 ? 40000000 : 4000000);
  struct timespec pause = {.tv_nsec = (long)nanoseconds};
  nanosleep(&pause, NULL);
  kill(pid, SIGKILL);
  uint64_t at_least = acknowledged(ends[0], torture->last);
  close(ends[0]);
  int how;
  waitpid(pid, &how, 0);
  if (WIFEXITED(how)) return complain(torture, kill_number, "the writer ended by itself");
  return check(torture, at_least, kill_number);
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
      {"seed", 's', "N", 0, "for the same choices again (the time)", 0},
      {0}};
  struct argp argp = {
      options,
      parse,
      "FOLDER",
      "Makes a store in FOLDER, lets a process write to it, kills the process at random moments, "
      "and "
      "checks after each kill that every acknowledged transaction is there, whole.\v"
      "Example: p3l torture --kills 10000 /var/tmp\n"
      "The store is removed if nothing was lost, and kept otherwise. A killed process loses no "
      "page of "
      "the kernel's cache; what a power failure may leave is tried by test_crash.",
      0,
      0,
      0};
  torture torture = {.kills = 1000, .seed = (uint64_t)time(NULL)};
  argp_err_exit_status = 2;
  argp_parse(&argp, argc, argv, 0, NULL, &torture);
  int status = prepare(&torture);
  for (unsigned long n = 1; n <= torture.kills && status == 0; n++) {
    status = kill_once(&torture, n);
    if (isatty(STDERR_FILENO) && n % 100 == 0)
      fprintf(stderr, "\r%lu of %lu kills", n, torture.kills);
  }
  if (status != 0) return status;
  printf(
      "%lu kills, %llu transactions committed, %llu carried out again by recovery, %llu "
      "interrupted: none lost, none "
      "half (seed %llu)\n",
      torture.kills, (unsigned long long)torture.last, (unsigned long long)torture.recovered,
      (unsigned long long)torture.interrupted, (unsigned long long)torture.seed);
  char log_path[4200];
  snprintf(log_path, sizeof(log_path), "%s-log", torture.path);
  unlink(log_path);
  unlink(torture.path);
  return 0;
}
