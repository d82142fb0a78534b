#include "checksum.h"
#include "mode.h"

oo7_tally oo7_seen = {OO1_CHECKSUM_START, 0};

void oo7_null_proc(uint32_t x, uint32_t y, const char *type) {
  (void)x;
  (void)y;
  (void)type;
}

void oo7_look(uint32_t id, uint32_t x, uint32_t y, const char *type) {
  oo7_seen.checksum = oo1_checksum(oo7_seen.checksum, id, x, y, type);
  oo7_seen.visited++;
}
