/* stat: prints the properties and the content of a store. */
#include <stdlib.h>

#include "tool.h"

typedef struct counted {
  const p3l_survey *survey;
  p3l_tally *tally;
  uint64_t uses[8]; /* pages by use */
  uint64_t holes, hole_bytes, small_bytes;
} counted;

static p3l_code count_object(void *state, const p3l_found *found, p3l_error *error) {
  counted *counted = state;
  (void)error;
  p3l_tally_add(counted->tally, counted->survey, found);
  if (found->content != NULL) counted->small_bytes += found->bytes;
  return P3L_OK;
}

static void count_pages(counted *counted) {
  for (uint64_t number = 1; number < counted->survey->page_count; number++) {
    const p3l_surveyed_page *page = &counted->survey->pages[number];
    if (page->use < 8) counted->uses[page->use]++;
    if (page->use != P3L_USE_OBJECTS) continue;
    uint32_t granules = 0;
    for (uint32_t g = P3L_OBJECTS_BEGIN / P3L_GRANULE, hole = 0; g < page->end / P3L_GRANULE; g++) {
      if (page->starts[g / 64] >> g % 64 & 1) {
        hole = page->holes[g / 64] >> g % 64 & 1;
        counted->holes += hole;
      }
      granules += hole;
    }
    counted->hole_bytes += (uint64_t)granules * P3L_GRANULE;
  }
}

static void print_header(const p3l_header *header, const p3l_recovery *recovery, FILE *to) {
  fprintf(to, "format version   %u\n", header->version);
  fprintf(to, "store id         ");
  for (size_t i = 0; i < sizeof(header->store_id); i++) fprintf(to, "%02x", header->store_id[i]);
  fprintf(to, "\npages            %llu of %u bytes, %llu of them free\n",
          (unsigned long long)header->page_count, header->page_size,
          (unsigned long long)header->free_count);
  fprintf(to, "log              %llu transactions on %llu pages since the last checkpoint%s\n",
          (unsigned long long)recovery->transactions, (unsigned long long)recovery->pages,
          recovery->interrupted ? "; one was interrupted, nothing of it is in the store" : "");
  if (recovery->written)
    fprintf(to, "writer           another process; what follows is what it committed last\n");
}

static void print_pages(const counted *counted, FILE *to) {
  uint64_t pages = counted->uses[P3L_USE_OBJECTS];
  uint64_t room = pages * (P3L_PAGE_SIZE - P3L_OBJECTS_BEGIN);
  fprintf(to, "object pages     %llu, %.1f %% filled; %llu holes of %llu bytes in all\n",
          (unsigned long long)pages,
          room == 0 ? 0.0 : 100.0 * (double)counted->small_bytes / (double)room,
          (unsigned long long)counted->holes, (unsigned long long)counted->hole_bytes);
  fprintf(to, "other pages      %llu of large objects, %llu of types, %llu of roots\n",
          (unsigned long long)counted->uses[P3L_USE_LARGE],
          (unsigned long long)counted->uses[P3L_USE_TYPES],
          (unsigned long long)counted->uses[P3L_USE_ROOTS]);
}

static p3l_code print_root(void *state, const p3l_root_entry *entry, p3l_error *error) {
  (void)error;
  fprintf(state, "root             \"%s\" at %s\n", p3l_printable(entry->name),
          p3l_address_text(p3l_surrogate_address(entry->address)));
  return P3L_OK;
}

int p3l_stat_store(p3l_pager *pager, const p3l_recovery *recovery, FILE *to) {
  p3l_survey survey;
  p3l_page zero;
  p3l_error error;
  int status = p3l_survey_sound(&survey, pager);
  counted counted = {.survey = &survey, .tally = p3l_tally_new(&survey)};
  p3l_code code = counted.tally == NULL
                      ? p3l_fail(&error, P3L_NO_MEMORY, "no memory to count the objects")
                      : p3l_pager_read(pager, (p3l_page_number){0}, &zero, &error);
  if (code == P3L_OK && survey.pages != NULL) {
    print_header(p3l_header_of(&zero), recovery, to);
    count_pages(&counted);
    code = p3l_survey_each(&survey, count_object, &counted, &error);
    p3l_end_progress();
    print_pages(&counted, to);
    if (code == P3L_OK) code = p3l_root_each(pager, print_root, to, &error);
    p3l_tally_print(counted.tally, &survey, to);
  }
  free(counted.tally);
  p3l_survey_end(&survey);
  return code == P3L_OK ? status : p3l_told(&error);
}

static error_t parse(int key, char *value, struct argp_state *state) {
  return p3l_parse_store(key, value, state, state->input);
}

int p3l_run_stat(int argc, char **argv) {
  const char *path = NULL;
  struct argp argp = {
      .parser = parse,
      .args_doc = "STORE",
      .doc =
          "Describes STORE and its contents: pages, how full they are, roots, "
          "objects and bytes by type. It is only read; a process may write to it meanwhile.\v"
          "Example: p3l stat /var/tmp/parts"};
  p3l_pager *pager;
  p3l_recovery recovery;
  p3l_error error;
  p3l_pager_options options = {.read_only = true};
  p3l_parse(&argp, argc, argv, &path);
  if (p3l_pager_open(path, &options, &pager, &recovery, &error) != P3L_OK) return p3l_told(&error);
  int status = p3l_stat_store(pager, &recovery, stdout);
  p3l_pager_close(pager, NULL);
  return status;
}
