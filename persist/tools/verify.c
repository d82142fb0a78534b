/* verify: checks pages, lists, objects and pointers. */
#include "tool.h"

typedef struct told {
  FILE *to;
} told;

static void print_fault(void *state, const char *sentence) {
  p3l_end_progress();
  fprintf(((told *)state)->to, "%s\n", p3l_printable(sentence));
}

int p3l_verify_store(p3l_pager *pager, FILE *to) {
  told told = {to};
  p3l_listener listener = {print_fault, p3l_show_progress, &told};
  p3l_verification pages;
  p3l_object_verification objects = {0};
  p3l_survey survey = {0};
  p3l_error error;
  p3l_code code =
      p3l_pager_verify_watched(pager, print_fault, p3l_show_progress, &told, &pages, &error);
  if (code == P3L_OK) code = p3l_survey_begin(&survey, pager, &listener, &error);
  if (code == P3L_OK) code = p3l_objects_verify(&survey, &objects, &error);
  uint64_t faults = pages.faults + survey.faults;
  p3l_survey_end(&survey);
  p3l_end_progress();
  if (code != P3L_OK) return p3l_told(&error);
  fprintf(to,
          "%llu pages (%llu data, %llu free), %llu objects, %llu large ones, %llu moved ones, "
          "%llu pointers, %llu roots: %llu faults, %llu dangling pointers\n",
          (unsigned long long)pages.pages, (unsigned long long)pages.data_pages,
          (unsigned long long)pages.free_pages, (unsigned long long)objects.objects,
          (unsigned long long)objects.large_objects, (unsigned long long)objects.forwards,
          (unsigned long long)objects.pointers, (unsigned long long)objects.roots,
          (unsigned long long)faults, (unsigned long long)objects.dangling);
  return faults == 0 ? 0 : 1;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  return p3l_parse_store(key, value, state, state->input);
}

int p3l_run_verify(int argc, char **argv) {
  const char *path = NULL;
  struct argp argp = {
      .parser = parse,
      .args_doc = "STORE",
      .doc =
          "Reads every page of STORE and checks it: checksums, the lists of pages, what lies in "
          "pages, that each pointer leads to an object. STORE is only read; while a process writes "
          "to "
          "it, what was committed last is checked. A pointer to where no "
          "object is (any more) is reported, and is not a fault: programs may leave one.\v"
          "Example: p3l verify /var/tmp/parts\n\nExit status: 0 nothing is wrong, 1 something is."};
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options options = {.read_only = true};
  p3l_parse(&argp, argc, argv, &path);
  if (p3l_pager_open(path, &options, &pager, NULL, &error) != P3L_OK) return p3l_told(&error);
  int status = p3l_verify_store(pager, stdout);
  p3l_pager_close(pager, NULL);
  return status;
}
