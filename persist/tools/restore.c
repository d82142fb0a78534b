/* restore: makes a store of a backup and increments. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "follow.h"
#include "tool.h"

typedef struct arguments {
  const char **paths; /* sources, then the store */
  size_t count;
  bool at_given;
  uint64_t at;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  char *end;
  switch (key) {
    case 'a':
      arguments->at = strtoull(value, &end, 10);
      arguments->at_given = true;
      if (*value < '0' || *value > '9' || *end != 0)
        argp_error(state,
                   "\"%s\" is not a version: a number, as p3l backup and p3l follow print it",
                   value);
      return 0;
    case ARGP_KEY_ARG: arguments->paths[arguments->count++] = value; return 0;
    case ARGP_KEY_END:
      if (arguments->count < 2) argp_error(state, "FILE... or DIR, or STORE is missing");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static bool is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* How many of the sources are of versions up to that one. */
static p3l_code up_to(const arguments *arguments, const char *const *paths, size_t *count,
                      p3l_error *error) {
  size_t fit = 0;
  for (; arguments->at_given && fit < *count; fit++) {
    p3l_source source;
    p3l_code code = p3l_source_look(paths[fit], &source, error);
    if (code != P3L_OK) return code;
    if (source.to.position <= arguments->at) continue;
    if (fit == 0)
      return p3l_fail(error, P3L_MISUSE,
                      "version %" PRIu64 " is before the first, %" PRIu64 " (%s)", arguments->at,
                      source.to.position, paths[0]);
    *count = fit;
    return P3L_OK;
  }
  return P3L_OK;
}

static p3l_code restore(const arguments *arguments, const char *const *paths, size_t count,
                        p3l_error *error) {
  const char *path = arguments->paths[arguments->count - 1];
  p3l_object_verification objects = {0};
  p3l_backup backup = {
      .check = p3l_check_copied_objects, .progress = p3l_show_progress, .state = &objects};
  p3l_source last;
  p3l_code code = up_to(arguments, paths, &count, error);
  if (code == P3L_OK) code = p3l_restore(paths, count, path, &backup, error);
  if (code == P3L_OK) code = p3l_source_look(paths[count - 1], &last, error);
  p3l_end_progress();
  if (code == P3L_OK)
    printf("%s: version %" PRIu64 " of %zu file%s, %" PRIu64 " pages, %" PRIu64
           " objects, checked\n",
           path, last.to.position, count, count == 1 ? "" : "s", backup.pages,
           objects.objects + objects.large_objects);
  return code;
}

int p3l_run_restore(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"at", 'a', "VERSION", 0, "Leave out what is of later versions than this", 0}, {0}};
  struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "FILE... STORE\nDIR STORE",
      .doc =
          "Makes STORE of a backup and increments, the oldest FILE first, or of what p3l follow "
          "put "
          "into DIR. STORE is read again and checked, as p3l verify does, before it is given its "
          "name.\v"
          "Examples: p3l restore /backup/parts-monday /backup/parts-tuesday /var/tmp/parts\n"
          "p3l restore --at 28416 /standby /var/tmp/parts\n\n"
          "Exit status: 0 the store is there and on stable storage, 1 nothing is at STORE."};
  arguments arguments = {.paths = calloc((size_t)argc + 1, sizeof(char *))};
  p3l_shipped shipped = {0};
  p3l_error error;
  if (arguments.paths == NULL) {
    p3l_fail(&error, P3L_NO_MEMORY, "no memory for arguments");
    return p3l_told(&error);
  }
  p3l_parse(&argp, argc, argv, &arguments);
  const char *const *paths = arguments.paths;
  size_t count = arguments.count - 1;
  p3l_code code = P3L_OK;
  if (count == 1 && is_folder(paths[0])) {
    code = p3l_shipped_list(paths[0], &shipped, &error);
    paths = (const char *const *)shipped.paths;
    count = shipped.count;
  }
  if (code == P3L_OK) code = restore(&arguments, paths, count, &error);
  p3l_shipped_free(&shipped);
  free(arguments.paths);
  return code == P3L_OK ? 0 : p3l_told(&error);
}
