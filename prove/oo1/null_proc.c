#include "null_proc.h"

#include "checksum.h"

oo1_tally oo1_seen = {OO1_CHECKSUM_START, 0};

void oo1_null_proc(uint32_t x, uint32_t y, const char *type) {
  (void)x;
  (void)y;
  (void)type;
}

void oo1_look(uint32_t id, uint32_t x, uint32_t y, const char *type) {
  oo1_seen.checksum = oo1_checksum(oo1_seen.checksum, id, x, y, type);
  oo1_seen.visited++;
}
