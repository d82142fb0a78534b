/* create, stat, verify. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p3l.h"
#include "pager.h"

typedef struct arguments {
  const char *path;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
  arguments *arguments = state->input;
  switch (key) {
    case ARGP_KEY_ARG:
      if (arguments->path != NULL) argp_error(state, "one store at a time");
      arguments->path = value;
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which STORE?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const char *store_of(int argc, char **argv, const char *what) {
  struct argp argp = {.parser = parse, .args_doc = "STORE", .doc = what};
  arguments arguments = {0};
  argp_err_exit_status = 2;
  argp_parse(&argp, argc, argv, 0, NULL, &arguments);
  return arguments.path;
}

static int told(const p3l_error *error) {
  fprintf(stderr, "p3l: %s\n", error->message);
  return 1;
}

int p3l_run_create(int argc, char **argv) {
  const char *path = store_of(argc, argv,
                              "Makes an empty store at STORE, and its log at STORE-log.\v"
                              "Example: p3l create /var/tmp/parts");
  p3l_error error;
  return p3l_store_create(path, &error) == P3L_OK ? 0 : told(&error);
}

static p3l_pager *open_to_read(const char *path, p3l_recovery *recovery, p3l_error *error) {
  p3l_pager *pager;
  p3l_pager_options options = {.read_only = true};
  return p3l_pager_open(path, &options, &pager, recovery, error) == P3L_OK ? pager : NULL;
}

int p3l_run_stat(int argc, char **argv) {
  const char *path = store_of(
      argc, argv, "Says what STORE is. It is only read.\vExample: p3l stat /var/tmp/parts");
  p3l_error error;
  p3l_recovery recovery;
  p3l_page zero;
  p3l_pager *pager = open_to_read(path, &recovery, &error);
  if (pager == NULL) return told(&error);
  int status = 0;
  if (p3l_pager_read(pager, (p3l_page_number){0}, &zero, &error) == P3L_OK) {
    const p3l_header *header = p3l_header_of(&zero);
    printf("format version   %u\n", header->version);
    printf("store id         ");
    for (size_t i = 0; i < sizeof(header->store_id); i++) printf("%02x", header->store_id[i]);
    printf("\npages            %llu of %u bytes, %llu of them free\n",
           (unsigned long long)header->page_count, header->page_size,
           (unsigned long long)header->free_count);
    printf("log              %llu transactions on %llu pages since the last checkpoint%s\n",
           (unsigned long long)recovery.transactions, (unsigned long long)recovery.pages,
           recovery.interrupted ? "; one was interrupted, nothing of it is in the store" : "");
  } else {
    status = told(&error);
  }
  p3l_pager_close(pager, NULL);
  return status;
}

static void print_fault(void *state, const char *sentence) {
  (void)state;
  printf("%s\n", sentence);
}

int p3l_run_verify(int argc, char **argv) {
  const char *path = store_of(
      argc, argv,
      "Reads every page of STORE, checks it, and follows the list of free pages. STORE is only "
      "read.\vExample: p3l verify /var/tmp/parts");
  p3l_error error;
  p3l_verification verification;
  p3l_pager *pager = open_to_read(path, NULL, &error);
  if (pager == NULL) return told(&error);
  p3l_code code = p3l_pager_verify(pager, print_fault, NULL, &verification, &error);
  if (code == P3L_OK)
    printf("%llu pages (%llu data, %llu free): %llu faults\n",
           (unsigned long long)verification.pages, (unsigned long long)verification.data_pages,
           (unsigned long long)verification.free_pages, (unsigned long long)verification.faults);
  p3l_pager_close(pager, NULL);
  if (code != P3L_OK) return told(&error);
  return verification.faults == 0 ? 0 : 1;
}
