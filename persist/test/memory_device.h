/*
 * A device in memory that records the writes since the last sync, so that a test can simulate a
 * power failure at any moment. Each of these writes may then have reached the disk completely, in
 * part or not at all, in any order.
 */
#ifndef P3L_MEMORY_DEVICE_H
#define P3L_MEMORY_DEVICE_H

#include "device.h"

typedef struct memory_write {
  uint64_t at;
  size_t length;
  uint8_t *bytes;
} memory_write;

typedef struct memory_device {
  p3l_device device; /* first */
  uint8_t *bytes;    /* contents as the process sees them */
  uint64_t size, capacity;
  uint8_t *stable; /* contents at the last sync */
  uint64_t stable_size, stable_capacity;
  memory_write *writes; /* writes since then */
  size_t write_count;
  _Atomic uint64_t calls; /* writes and syncs so far */
  /* The n-th call from now on fails with this errno value; 0: none. */
  _Atomic uint64_t fail_in;
  int fail_with;
  void (*before)(
      void *state); /* called before every write and sync, as a moment for a crash; may be NULL */
  void *before_state;
} memory_device;

memory_device *memory_device_new(void);
/* Makes a device with the contents `bytes`, all of it stable. */
memory_device *memory_device_of(const uint8_t *bytes, uint64_t size);
void memory_device_free(memory_device *device);

/*
 * Returns possible contents after a crash: the stable bytes plus, for each write since, the
 * 512-byte sectors selected by `choose`. choose(state, write, sector) is true for sectors that
 * reached the disk.
 */
uint8_t *memory_device_crash(const memory_device *device,
                             bool (*choose)(void *state, size_t write, size_t sector), void *state,
                             uint64_t *size);

#endif
