/* create: makes an empty store. */
#include "tool.h"

static error_t parse(int key, char *value, struct argp_state *state) {
  return p3l_parse_store(key, value, state, state->input);
}

int p3l_run_create(int argc, char **argv) {
  const char *path = NULL;
  struct argp argp = {.parser = parse,
                      .args_doc = "STORE",
                      .doc =
                          "Makes an empty store at STORE, and its log at STORE-log.\v"
                          "Example: p3l create /var/tmp/parts"};
  p3l_error error;
  p3l_parse(&argp, argc, argv, &path);
  return p3l_store_create(path, &error) == P3L_OK ? 0 : p3l_told(&error);
}
