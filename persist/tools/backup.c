/* backup: copies a store, or what changed in it, also while a process writes to it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "increment.h"
#include "tool.h"

typedef struct arguments {
  const char *path, *copy, *since;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  switch (key) {
    case 's': arguments->since = value; return 0;
    case ARGP_KEY_ARG:
      if (arguments->copy != NULL) argp_error(state, "one STORE and one FILE");
      if (arguments->path == NULL)
        arguments->path = value;
      else
        arguments->copy = value;
      return 0;
    case ARGP_KEY_END:
      if (arguments->copy == NULL) argp_error(state, "STORE or FILE is missing");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

p3l_code p3l_check_copied_objects(void *state, p3l_pager *copy, p3l_error *error) {
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
  p3l_backup backup = {
      .check = p3l_check_copied_objects, .progress = p3l_show_progress, .state = &objects};
  p3l_error error;
  p3l_code code = p3l_pager_backup(pager, copy, &backup, &error);
  p3l_end_progress();
  if (code != P3L_OK) return p3l_told(&error);
  fprintf(to, "%s: %" PRIu64 " pages, %" PRIu64 " objects, checked\n", copy, backup.pages,
          objects.objects + objects.large_objects);
  return 0;
}

static int increment(p3l_pager *pager, const arguments *arguments) {
  p3l_source since, made;
  p3l_error error;
  char *fresh = NULL;
  p3l_code code = p3l_source_look(arguments->since, &since, &error);
  if (code == P3L_OK && asprintf(&fresh, "%s-new", arguments->copy) < 0)
    code = p3l_fail(&error, P3L_NO_MEMORY, "%s: no memory to make it", arguments->copy);
  if (code == P3L_OK)
    code = p3l_pager_increment(pager, &since.to, NULL, arguments->copy, fresh, &made, &error);
  free(fresh);
  if (code != P3L_OK) return p3l_told(&error);
  printf("%s: %" PRIu64 " of %" PRIu64 " pages, version %" PRIu64 " since %" PRIu64 ", checked\n",
         arguments->copy, made.pages, made.to.page_count, made.to.position, made.since);
  return 0;
}

int p3l_run_backup(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"since", 's', "PREVIOUS", 0,
       "Copy only the pages that changed since this backup or increment was made", 0},
      {0}};
  struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "STORE FILE",
      .doc =
          "Copies STORE as of the last commit to FILE and FILE-log, also while a process writes to "
          "it. The copy is a store of its own. It is read again and checked, as p3l verify does, "
          "before it is given its name. With --since FILE is an increment, of which p3l restore "
          "makes a store.\v"
          "Examples: p3l backup /var/tmp/parts /backup/parts-monday\n"
          "p3l backup --since /backup/parts-monday /var/tmp/parts /backup/parts-tuesday\n\n"
          "Exit status: 0 the copy is there and on stable storage, 1 nothing is at FILE."};
  arguments arguments = {0};
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options pager_options = {.read_only = true};
  p3l_parse(&argp, argc, argv, &arguments);
  if (p3l_pager_open(arguments.path, &pager_options, &pager, NULL, &error) != P3L_OK)
    return p3l_told(&error);
  int status = arguments.since != NULL ? increment(pager, &arguments)
                                       : p3l_backup_store(pager, arguments.copy, stdout);
  p3l_pager_close(pager, NULL);
  return status;
}
