/* Arguments, errors, progress and names: shared by the subcommands. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "tool.h"

/* ---- arguments ---- */

error_t p3l_parse_store(int key, char *value, struct argp_state *state, const char **path) {
  switch (key) {
    case ARGP_KEY_ARG:
      if (*path != NULL) argp_error(state, "one store at a time");
      *path = value;
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which STORE?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

void p3l_parse(const struct argp *argp, int argc, char **argv, void *input) {
  argp_err_exit_status = 2;
  argp_parse(argp, argc, argv, 0, NULL, input);
}

int p3l_told(const p3l_error *error) {
  fprintf(stderr, "p3l: %s\n", error->message);
  return 1;
}

/* ---- progress ---- */

enum { PATIENCE_SECONDS = 2, STEPS_PER_SECOND = 10 };
static bool shown;

static int64_t tenths(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * STEPS_PER_SECOND + now.tv_nsec / (1000000000 / STEPS_PER_SECOND);
}

void p3l_show_progress(void *state, const char *what, uint64_t done, uint64_t total) {
  static int64_t began, last;
  enum { WIDTH = 40 };
  (void)state;
  int64_t now = tenths();
  if (began == 0) began = now;
  if (now - began < PATIENCE_SECONDS * STEPS_PER_SECOND || now == last || total == 0 ||
      !isatty(STDERR_FILENO))
    return;
  last = now;
  shown = true;
  int filled = (int)(done * WIDTH / total);
  fprintf(stderr, "\r%-10s [%.*s%*s] %3d %%", what, filled,
          "########################################", WIDTH - filled, "",
          (int)(done * 100 / total));
}

void p3l_end_progress(void) {
  if (shown) fprintf(stderr, "\r\033[K");
  shown = false;
}

/* ---- surveys ---- */

static void print_fault(void *state, const char *sentence) {
  (void)state;
  p3l_end_progress();
  fprintf(stderr, "p3l: %s\n", sentence);
}

int p3l_survey_sound(p3l_survey *survey, p3l_pager *pager) {
  p3l_error error;
  p3l_listener listener = {print_fault, p3l_show_progress, NULL};
  p3l_code code = p3l_survey_begin(survey, pager, &listener, &error);
  p3l_end_progress();
  if (code != P3L_OK) return p3l_told(&error);
  if (survey->faults == 0 && survey->unreadable == 0) return 0;
  fprintf(stderr,
          "p3l: %s is damaged (%llu pages cannot be read, %llu are not as they were written); p3l "
          "verify says more\n",
          p3l_pager_path(pager), (unsigned long long)survey->unreadable,
          (unsigned long long)survey->faults);
  return 1;
}

/* ---- names ---- */

enum { TEXTS = 4, TEXT_BYTES = 1024 };

static char *next_text(void) {
  static char texts[TEXTS][TEXT_BYTES];
  static unsigned next;
  return texts[next++ % TEXTS];
}

/* Returns the length of the UTF-8 sequence at `at`, 0 if it is invalid. The C library decides,
 * because it knows all rules. */
static size_t sequence(const char *at) {
  static locale_t utf8;
  wchar_t character;
  mbstate_t state = {0};
  if (utf8 == (locale_t)0) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  if (utf8 == (locale_t)0) return 0;
  locale_t before = uselocale(utf8);
  size_t length = mbrtowc(&character, at, strlen(at), &state);
  uselocale(before);
  /* U+0080 to U+009F command terminals, too. */
  return length == (size_t)-1 || length == (size_t)-2 || character < 0xa0 ? 0 : length;
}

const char *p3l_printable(const char *name) {
  char *text = next_text();
  size_t used = 0;
  while (*name != 0 && used + 8 < TEXT_BYTES) {
    unsigned char byte = (unsigned char)*name;
    size_t length = byte >= 0x80 ? sequence(name) : byte >= 0x20 && byte != 0x7f;
    if (length == 0) {
      used += (size_t)snprintf(text + used, TEXT_BYTES - used, "\\x%02x", byte);
      name++;
    } else {
      memcpy(text + used, name, length);
      used += length;
      name += length;
    }
  }
  text[used] = 0;
  return text;
}

const char *p3l_address_text(p3l_address address) {
  char *text = next_text();
  snprintf(text, TEXT_BYTES, "%llu:%llu", (unsigned long long)(address.byte / P3L_PAGE_SIZE),
           (unsigned long long)(address.byte % P3L_PAGE_SIZE));
  return text;
}

const char *p3l_type_name(const p3l_found *found) {
  if (found->type == P3L_FORWARD) return "(moved)";
  if (found->layout != NULL) return p3l_printable(found->layout->name);
  char *text = next_text();
  snprintf(text, TEXT_BYTES, "(type %u)", found->type);
  return text;
}

/* ---- tallies ---- */

p3l_tally *p3l_tally_new(const p3l_survey *survey) {
  return calloc(survey->types.limit + 1u, sizeof(p3l_tally));
}

void p3l_tally_add(p3l_tally *tally, const p3l_survey *survey, const p3l_found *found) {
  /* Forwards, and what no type is known of, are together behind the last. */
  uint32_t at = found->layout == NULL ? survey->types.limit : found->type;
  tally[at].objects++;
  tally[at].bytes += found->bytes;
}

p3l_tally p3l_tally_print(const p3l_tally *tally, const p3l_survey *survey, FILE *to) {
  p3l_tally sum = {0};
  fprintf(to, "%-32s %7s %8s %12s %16s\n", "type", "version", "bytes", "objects", "bytes in all");
  for (uint32_t id = 0; id <= survey->types.limit; id++) {
    bool last = id == survey->types.limit;
    if (tally[id].objects == 0) continue;
    const p3l_stored_type *type = last ? NULL : survey->types.types[id];
    if (type == NULL)
      fprintf(to, "%-32s %7s %8s", "(moved or of no known type)", "", "");
    else
      fprintf(to, "%-32s %7u %8u", p3l_printable(type->name), type->version, type->bytes);
    fprintf(to, " %12llu %16llu\n", (unsigned long long)tally[id].objects,
            (unsigned long long)tally[id].bytes);
    sum.objects += tally[id].objects;
    sum.bytes += tally[id].bytes;
  }
  fprintf(to, "%-32s %7s %8s %12llu %16llu\n", "all", "", "", (unsigned long long)sum.objects,
          (unsigned long long)sum.bytes);
  return sum;
}
