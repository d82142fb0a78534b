/* backup: copies a store, also while a process writes to it. */
#include <inttypes.h>
#include <stdlib.h>

#include "tool.h"

typedef struct arguments {
  const char *path, *copy;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  switch (key) {
    case ARGP_KEY_ARG:
      if (arguments->copy != NULL) argp_error(state, "one STORE and one FILE");
      if (arguments->path == NULL)
        arguments->path = value;
      else
        arguments->copy = value;
      return 0;
    case ARGP_KEY_END:
      if (arguments->copy == NULL) argp_error(state, "which STORE, to which FILE?");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

/* Checks objects, lists and pointers like p3l verify. */
static p3l_code check_objects(void *state, p3l_pager *copy, p3l_error *error) {
  p3l_object_verification *objects = state;
  p3l_survey survey = {0};
  p3l_listener listener = {NULL, p3l_show_progress, NULL};
  p3l_code code = p3l_survey_begin(&survey, copy, &listener, error);
  if (code == P3L_OK) code = p3l_objects_verify(&survey, objects, error);
  if (code == P3L_OK && survey.faults + survey.unreadable > 0)
    code = p3l_fail(error, P3L_CORRUPT,
                    "%llu faults in the copy, which is not kept; p3l verify of the original says "
                    "which",
                    (unsigned long long)(survey.faults + survey.unreadable));
  p3l_survey_end(&survey);
  return code;
}

int p3l_backup_store(p3l_pager *pager, const char *copy, FILE *to) {
  p3l_object_verification objects = {0};
  p3l_backup backup = {.check = check_objects, .progress = p3l_show_progress, .state = &objects};
  p3l_error error;
  p3l_code code = p3l_pager_backup(pager, copy, &backup, &error);
  p3l_end_progress();
  if (code != P3L_OK) return p3l_told(&error);
  fprintf(to, "%s: %" PRIu64 " pages, %" PRIu64 " objects, checked\n", copy, backup.pages,
          objects.objects + objects.large_objects);
  return 0;
}

int p3l_run_backup(int argc, char **argv) {
  struct argp argp = {
      .parser = parse,
      .args_doc = "STORE FILE",
      .doc =
          "Copies STORE as of the last commit to FILE and FILE-log, also while a process writes to "
          "it. The copy is a store of its own. It is read again and checked, as p3l verify does, "
          "before it is given its name.\v"
          "Example: p3l backup /var/tmp/parts /backup/parts-monday\n\nExit status: 0 the copy is "
          "there and on stable storage, 1 nothing is at FILE."};
  arguments arguments = {0};
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options options = {.read_only = true};
  p3l_parse(&argp, argc, argv, &arguments);
  if (p3l_pager_open(arguments.path, &options, &pager, NULL, &error) != P3L_OK)
    return p3l_told(&error);
  int status = p3l_backup_store(pager, arguments.copy, stdout);
  p3l_pager_close(pager, NULL);
  return status;
}
