/*
 * follow: ships what is committed to a folder, version by version, while a process writes.
 *
 *   DIR empty ── all pages ──> version 1 ── refresh: it changed ──> what changed ──> version 2 ──> ...
 *   DIR has some: goes on after the last of them
 *
 * A version has its name in DIR when it is complete and on stable storage; one follower at a time writes
 * there, with the lock on DIR/p3l-new.
 */
#include "follow.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool.h"

#define SUFFIX ".p3l-version"
enum { DIGITS = 20, MILLISECONDS = 200 };

/* ---- the folder ---- */

static bool is_shipped(const char *name) {
  return strspn(name, "0123456789") == DIGITS && strcmp(name + DIGITS, SUFFIX) == 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add(p3l_shipped *shipped, const char *folder, const char *name) {
  if (shipped->count == shipped->capacity) {
    size_t capacity = shipped->capacity == 0 ? 64 : 2 * shipped->capacity;
    char **paths = realloc(shipped->paths, capacity * sizeof(*paths));
    if (paths == NULL) return false;
    shipped->paths = paths;
    shipped->capacity = capacity;
  }
  if (asprintf(&shipped->paths[shipped->count], "%s/%s", folder, name) < 0) return false;
  shipped->count++;
  return true;
}

static p3l_code list(const char *folder, p3l_shipped *shipped, p3l_error *error) {
  DIR *entries = opendir(folder);
  if (entries == NULL) return p3l_fail_errno(error, errno, "%s: listing it", folder);
  bool done = true;
  for (struct dirent *entry; done && (entry = readdir(entries)) != NULL;)
    if (is_shipped(entry->d_name)) done = add(shipped, folder, entry->d_name);
  closedir(entries);
  if (!done) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to list it", folder);
  if (shipped->count > 0) qsort(shipped->paths, shipped->count, sizeof(char *), by_name);
  return P3L_OK;
}

p3l_code p3l_shipped_list(const char *folder, p3l_shipped *shipped, p3l_error *error) {
  p3l_code code = list(folder, shipped, error);
  if (code == P3L_OK && shipped->count == 0)
    code = p3l_fail(error, P3L_MISUSE, "%s: p3l follow has written nothing there yet", folder);
  return code;
}

void p3l_shipped_free(p3l_shipped *shipped) {
  for (size_t at = 0; at < shipped->count; at++) free(shipped->paths[at]);
  free(shipped->paths);
  *shipped = (p3l_shipped){0};
}

/* ---- shipping ---- */

typedef struct arguments {
  const char *path, *folder;
  bool once, quiet;
} arguments;

typedef struct following {
  const arguments *arguments;
  p3l_pager *pager;
  p3l_version shipped; /* last */
  bool any;            /* was shipped */
} following;

static p3l_code ship(following *following, const p3l_news *news, p3l_error *error) {
  const char *folder = following->arguments->folder;
  p3l_version version = p3l_pager_version(following->pager);
  char *path = NULL, *fresh = NULL;
  p3l_source made;
  p3l_code code = P3L_OK;
  if (asprintf(&path, "%s/%0*" PRIu64 SUFFIX, folder, DIGITS, version.position) < 0) path = NULL;
  if (asprintf(&fresh, "%s/p3l-new", folder) < 0) fresh = NULL;
  if (path == NULL || fresh == NULL)
    code = p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to write there", folder);
  if (code == P3L_OK)
    code = p3l_pager_increment(following->pager, following->any ? &following->shipped : NULL, news,
                               path, fresh, &made, error);
  if (code == P3L_OK) {
    following->shipped = made.to;
    following->any = true;
    if (!following->arguments->quiet)
      printf("version %" PRIu64 ": %" PRIu64 " of %" PRIu64 " pages\n", made.to.position,
             made.pages, made.to.page_count);
    fflush(stdout);
  }
  free(path);
  free(fresh);
  return code;
}

/* Goes on where the last follower was. */
static p3l_code begin(following *following, p3l_error *error) {
  p3l_shipped shipped = {0};
  p3l_code code = list(following->arguments->folder, &shipped, error);
  if (code == P3L_OK && shipped.count > 0) {
    p3l_source last;
    code = p3l_source_look(shipped.paths[shipped.count - 1], &last, error);
    following->any = code == P3L_OK;
    if (code == P3L_OK) following->shipped = last.to;
  }
  p3l_shipped_free(&shipped);
  if (code != P3L_OK) return code;
  p3l_version version = p3l_pager_version(following->pager);
  bool same = following->any && version.position == following->shipped.position &&
              memcmp(version.store_id, following->shipped.store_id, 16) == 0;
  return same ? P3L_OK : ship(following, NULL, error);
}

static volatile sig_atomic_t stopped;
static void stop(int number) { stopped = number; }

static p3l_code follow(following *following, p3l_error *error) {
  p3l_code code = begin(following, error);
  while (code == P3L_OK && !stopped && !following->arguments->once) {
    p3l_news news;
    code = p3l_pager_refresh(following->pager, &news, error);
    if (code == P3L_OK && news.changed) code = ship(following, &news, error);
    bool quiet = !news.changed;
    p3l_news_free(&news);
    if (quiet && !stopped) poll(NULL, 0, MILLISECONDS);
  }
  return code;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  switch (key) {
    case 'o': arguments->once = true; return 0;
    case 'q': arguments->quiet = true; return 0;
    case ARGP_KEY_ARG:
      if (arguments->folder != NULL) argp_error(state, "one STORE and one DIR");
      if (arguments->path == NULL)
        arguments->path = value;
      else
        arguments->folder = value;
      return 0;
    case ARGP_KEY_END:
      if (arguments->folder == NULL) argp_error(state, "STORE or DIR is missing");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

int p3l_run_follow(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"once", 'o', NULL, 0, "Ship what is committed now, and end", 0},
      {"quiet", 'q', NULL, 0, "Print nothing", 0},
      {0}};
  struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "STORE DIR",
      .doc =
          "Ships what is committed in STORE to DIR until it is interrupted, also while a process "
          "writes: first all pages, then what each version that it sees has changed. p3l restore "
          "makes a store of it, on another machine, too. Started again it goes on after the last "
          "version in DIR; the writer does not wait for it.\v"
          "Example: p3l follow /var/tmp/parts /standby\n\nExit status: 0 it was interrupted, and "
          "the shipped versions are on stable storage, 1 an error occurred."};
  arguments arguments = {0};
  following following = {.arguments = &arguments};
  p3l_error error;
  p3l_pager_options pager_options = {.read_only = true};
  p3l_parse(&argp, argc, argv, &arguments);
  struct sigaction action = {.sa_handler = stop};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (mkdir(arguments.folder, 0700) != 0 && errno != EEXIST) {
    p3l_fail_errno(&error, errno, "%s: making it", arguments.folder);
    return p3l_told(&error);
  }
  if (p3l_pager_open(arguments.path, &pager_options, &following.pager, NULL, &error) != P3L_OK)
    return p3l_told(&error);
  p3l_code code = follow(&following, &error);
  p3l_pager_close(following.pager, NULL);
  return code == P3L_OK ? 0 : p3l_told(&error);
}
