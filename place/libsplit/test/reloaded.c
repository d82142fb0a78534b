/* A server's module with its own libsplit: for test_module.c. */
#include "split.h"

SPLIT_API unsigned use(const char *folder) {
  split_configure(folder);
  split_init_named("module", 0xa1, 0, SPLIT_KEY_TEXT);
  unsigned code = split_start(0, "in a module");
  split_end();
  return code;
}
