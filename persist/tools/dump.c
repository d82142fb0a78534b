/* dump: prints objects and their pointers as text or as JSON. */
#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

typedef struct dumping {
  p3l_survey *survey;
  const p3l_dump_options *options;
  p3l_marks marks; /* of what can be reached from options->root */
  FILE *to;
  cJSON *pointers; /* of the object at hand */
  bool no_memory;
  bool found; /* the root */
} dumping;

static p3l_code no_memory(p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "no memory for an object as JSON");
}

/* Prints and frees the value; cJSON reports a lack of memory by NULL. */
static p3l_code print_json(cJSON *json, bool whole, FILE *to, p3l_error *error) {
  char *line = json == NULL || !whole ? NULL : cJSON_PrintUnformatted(json);
  if (line != NULL) fprintf(to, "%s\n", line);
  cJSON_free(line);
  cJSON_Delete(json);
  return line == NULL ? no_memory(error) : P3L_OK;
}

static const char *note_on(const p3l_survey *survey, uint64_t value) {
  p3l_address begin;
  if (!p3l_slot_possible(value)) return "no pointer";
  if (p3l_survey_lead(survey, value, &begin) == P3L_TO_NOTHING) return "dangling";
  return NULL;
}

/* ---- pointers ---- */

static p3l_code dump_pointer(void *state, const p3l_found *found, uint64_t offset, uint64_t value,
                             p3l_error *error) {
  dumping *dumping = state;
  (void)found;
  if (value == 0) return P3L_OK;
  const char *note = note_on(dumping->survey, value);
  const char *target = p3l_address_text(p3l_surrogate_address(value));
  if (!dumping->options->json) {
    fprintf(dumping->to, "  +%llu -> %s%s%s\n", (unsigned long long)offset, target,
            note == NULL ? "" : "  ", note == NULL ? "" : note);
    return P3L_OK;
  }
  cJSON *pointer = cJSON_CreateObject();
  if (!cJSON_AddItemToArray(dumping->pointers, pointer)) {
    cJSON_Delete(pointer);
    return no_memory(error);
  }
  bool whole = cJSON_AddNumberToObject(pointer, "offset", (double)offset) != NULL &&
               cJSON_AddStringToObject(pointer, "to", target) != NULL &&
               (note == NULL || cJSON_AddStringToObject(pointer, "note", note) != NULL);
  return whole ? P3L_OK : no_memory(error);
}

/* ---- objects ---- */

static bool wanted(const dumping *dumping, const p3l_found *found) {
  const p3l_dump_options *options = dumping->options;
  if (options->root != NULL && !p3l_is_marked(&dumping->marks, found->address)) return false;
  return options->type == NULL ||
         (found->layout != NULL && strcmp(found->layout->name, options->type) == 0);
}

static p3l_code dump_json(dumping *dumping, const p3l_found *found, p3l_error *error) {
  cJSON *json = cJSON_CreateObject();
  dumping->pointers = cJSON_CreateArray();
  p3l_code code = dumping->pointers == NULL
                      ? no_memory(error)
                      : p3l_survey_slots(dumping->survey, found, dump_pointer, dumping, error);
  bool whole = json != NULL &&
               cJSON_AddStringToObject(json, "address", p3l_address_text(found->address)) != NULL &&
               cJSON_AddStringToObject(json, "type", p3l_type_name(found)) != NULL &&
               (found->layout == NULL ||
                cJSON_AddNumberToObject(json, "version", found->layout->version) != NULL) &&
               cJSON_AddNumberToObject(json, "bytes", (double)found->bytes) != NULL;
  if (code != P3L_OK || !cJSON_AddItemToObject(json, "pointers", dumping->pointers)) {
    cJSON_Delete(dumping->pointers);
    whole = false;
  }
  dumping->pointers = NULL;
  if (code == P3L_OK) return print_json(json, whole, dumping->to, error);
  cJSON_Delete(json);
  return code;
}

static p3l_code dump_object(void *state, const p3l_found *found, p3l_error *error) {
  dumping *dumping = state;
  if (!wanted(dumping, found)) return P3L_OK;
  if (dumping->options->json) return dump_json(dumping, found, error);
  fprintf(dumping->to, "%s  %s", p3l_address_text(found->address), p3l_type_name(found));
  if (found->layout != NULL) fprintf(dumping->to, " version %u", found->layout->version);
  fprintf(dumping->to, ", %llu bytes\n", (unsigned long long)found->bytes);
  return p3l_survey_slots(dumping->survey, found, dump_pointer, dumping, error);
}

/* ---- roots ---- */

static p3l_code dump_root(void *state, const p3l_root_entry *entry, p3l_error *error) {
  dumping *dumping = state;
  const p3l_dump_options *options = dumping->options;
  if (options->root != NULL && strcmp(options->root, entry->name) != 0) return P3L_OK;
  dumping->found = true;
  const char *name = p3l_printable(entry->name);
  const char *target = p3l_address_text(p3l_surrogate_address(entry->address));
  if (!options->json) {
    fprintf(dumping->to, "root \"%s\" -> %s\n", name, target);
    return P3L_OK;
  }
  cJSON *json = cJSON_CreateObject();
  bool whole = json != NULL && cJSON_AddStringToObject(json, "root", name) != NULL &&
               cJSON_AddStringToObject(json, "to", target) != NULL;
  return print_json(json, whole, dumping->to, error);
}

int p3l_dump_store(p3l_pager *pager, const p3l_dump_options *options, FILE *to) {
  p3l_survey survey;
  p3l_error error;
  /* The readable part of a damaged store is dumped, too: that is the case in which a dump is
   * needed. */
  int status = p3l_survey_sound(&survey, pager);
  dumping dumping = {.survey = &survey, .options = options, .to = to};
  p3l_code code = P3L_OK;
  if (survey.pages != NULL) {
    code = p3l_root_each(pager, dump_root, &dumping, &error);
    if (code == P3L_OK && options->root != NULL && !dumping.found)
      code = p3l_fail(&error, P3L_MISUSE, "%s has no root of the name \"%s\"; p3l stat lists them",
                      p3l_pager_path(pager), p3l_printable(options->root));
    if (code == P3L_OK && options->root != NULL)
      code = p3l_mark(&survey, options->root, &dumping.marks, &error);
    if (code == P3L_OK) code = p3l_survey_each(&survey, dump_object, &dumping, &error);
  }
  p3l_end_progress();
  p3l_marks_free(&dumping.marks);
  p3l_survey_end(&survey);
  return code == P3L_OK ? status : p3l_told(&error);
}

/* ---- the command ---- */

typedef struct arguments {
  const char *path;
  p3l_dump_options options;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  switch (key) {
    case 't': arguments->options.type = value; return 0;
    case 'r': arguments->options.root = value; return 0;
    case 'f':
      arguments->options.json = strcmp(value, "json") == 0;
      if (!arguments->options.json && strcmp(value, "text") != 0)
        argp_error(state, "the format is text or json, not %s", value);
      return 0;
    default: return p3l_parse_store(key, value, state, &arguments->path);
  }
}

int p3l_run_dump(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"type", 't', "NAME", 0, "Only objects of this type", 0},
      {"root", 'r', "NAME", 0, "Only objects that can be reached from this root", 0},
      {"format", 'f', "text|json", 0, "json: one object a line, and one line for each root", 0},
      {0}};
  struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "STORE",
      .doc =
          "Lists the objects of STORE with their addresses (page:byte), types, and what their "
          "pointers lead to. STORE is only read.\v"
          "Example: p3l dump --type part --format json /var/tmp/parts | jq .pointers[].to"};
  arguments arguments = {0};
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options opening = {.read_only = true};
  p3l_parse(&argp, argc, argv, &arguments);
  if (p3l_pager_open(arguments.path, &opening, &pager, NULL, &error) != P3L_OK)
    return p3l_told(&error);
  int status = p3l_dump_store(pager, &arguments.options, stdout);
  p3l_pager_close(pager, NULL);
  return status;
}
