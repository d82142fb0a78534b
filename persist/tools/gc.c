/* gc: deletes objects that cannot be reached from a root. */
#include <stdlib.h>

#include "allocate.h"
#include "tool.h"

/* The number of deletions per transaction. After each the store is consistent and the remaining
 * garbage is still garbage; a single transaction would need memory for all pages. */
enum { BATCH = 65536 };

typedef struct collecting {
  p3l_survey *survey;
  p3l_marks marks;
  p3l_tally *tally;
  bool dry_run;
  p3l_address *garbage;
  size_t count, capacity;
} collecting;

static p3l_code collect(void *state, const p3l_found *found, p3l_error *error) {
  collecting *collecting = state;
  if (p3l_is_marked(&collecting->marks, found->address)) return P3L_OK;
  p3l_tally_add(collecting->tally, collecting->survey, found);
  if (collecting->dry_run) return P3L_OK;
  if (collecting->count == collecting->capacity) {
    size_t capacity = collecting->capacity == 0 ? BATCH : collecting->capacity * 2;
    void *more = realloc(collecting->garbage, capacity * sizeof(*collecting->garbage));
    if (more == NULL) return p3l_fail(error, P3L_NO_MEMORY, "no memory for a list of objects");
    collecting->garbage = more;
    collecting->capacity = capacity;
  }
  collecting->garbage[collecting->count++] = found->address;
  return P3L_OK;
}

static p3l_code delete_garbage(const collecting *collecting, p3l_error *error) {
  p3l_pager *pager = collecting->survey->pager;
  p3l_code code = P3L_OK;
  for (size_t first = 0; first < collecting->count && code == P3L_OK; first += BATCH) {
    size_t end = collecting->count - first < BATCH ? collecting->count : first + BATCH;
    p3l_pager_transaction *transaction;
    code = p3l_pager_begin(pager, &transaction, error);
    if (code != P3L_OK) return code;
    for (size_t i = first; i < end && code == P3L_OK; i++)
      code = p3l_room_give_piece(transaction, collecting->garbage[i], error);
    if (code == P3L_OK)
      code = p3l_pager_commit(transaction, error);
    else
      p3l_pager_abort(transaction);
    p3l_survey_progress(collecting->survey, "deleting", end, collecting->count);
  }
  return code;
}

int p3l_gc_store(p3l_pager *pager, const p3l_gc_options *options, FILE *to) {
  p3l_survey survey;
  p3l_error error;
  int status = p3l_survey_sound(&survey, pager);
  collecting collecting = {.survey = &survey, .dry_run = options->dry_run};
  p3l_code code = P3L_OK;
  if (status == 0) {
    collecting.tally = p3l_tally_new(&survey);
    code = collecting.tally == NULL
               ? p3l_fail(&error, P3L_NO_MEMORY, "no memory to count the objects")
               : p3l_mark(&survey, NULL, &collecting.marks, &error);
    if (code == P3L_OK) code = p3l_survey_each(&survey, collect, &collecting, &error);
    if (code == P3L_OK) code = delete_garbage(&collecting, &error);
    p3l_end_progress();
  }
  if (status == 0 && code == P3L_OK) {
    fprintf(to, "%s:\n",
            options->dry_run ? "no root leads to" : "deleted, for no root led to them");
    p3l_tally_print(collecting.tally, &survey, to);
  }
  free(collecting.tally);
  free(collecting.garbage);
  p3l_marks_free(&collecting.marks);
  p3l_survey_end(&survey);
  return code == P3L_OK ? status : p3l_told(&error);
}

typedef struct arguments {
  const char *path;
  p3l_gc_options options;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  if (key == 'n') {
    arguments->options.dry_run = true;
    return 0;
  }
  return p3l_parse_store(key, value, state, &arguments->path);
}

int p3l_run_gc(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"dry-run", 'n', NULL, 0, "Only report; STORE is only read", 0}, {0}};
  struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "STORE",
      .doc =
          "Follows all pointers of STORE from its roots, reports the objects that they do not lead "
          "to, by type, and deletes them. Nothing is deleted from a damaged store.\v"
          "Example: p3l gc --dry-run /var/tmp/parts\n\nWho keeps surrogates of objects elsewhere "
          "must have them under a root, too."};
  arguments arguments = {0};
  p3l_pager *pager;
  p3l_error error;
  p3l_parse(&argp, argc, argv, &arguments);
  p3l_pager_options opening = {.read_only = arguments.options.dry_run};
  if (p3l_pager_open(arguments.path, &opening, &pager, NULL, &error) != P3L_OK)
    return p3l_told(&error);
  int status = p3l_gc_store(pager, &arguments.options, stdout);
  if (p3l_pager_close(pager, &error) != P3L_OK) status = p3l_told(&error);
  return status;
}
