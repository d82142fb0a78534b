/* The device in memory: stores writes since the last sync, and fails when a test wants it to. */
#include "memory_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Threads of a test share a device, as threads share a file. One lock serves all devices. */
static pthread_mutex_t everything = PTHREAD_MUTEX_INITIALIZER;

static void must(const void *memory) {
  if (memory == NULL) abort();
}

/* True if this call is the one that must fail. */
static int fault(memory_device *memory) {
  memory->calls++;
  if (memory->before != NULL) memory->before(memory->before_state);
  if (memory->fail_in == 0 || --memory->fail_in > 0) return 0;
  return memory->fail_with;
}

static int memory_read(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  memory_device *memory = (memory_device *)device;
  pthread_mutex_lock(&everything);
  bool there = at.byte <= memory->size && memory->size - at.byte >= length;
  if (there) memcpy(bytes, memory->bytes + at.byte, length);
  pthread_mutex_unlock(&everything);
  return there ? 0 : ENODATA;
}

static void put(uint8_t **bytes, uint64_t *size, uint64_t *capacity, const void *from,
                size_t length, uint64_t at) {
  if (at + length > *size) {
    if (at + length > *capacity) {
      /*
       * Doubles the space, so that a log that grows write by write is not copied with each write.
       */
      *capacity = (at + length) * 2;
      *bytes = realloc(*bytes, *capacity);
      must(*bytes);
    }
    memset(*bytes + *size, 0, at + length - *size);
    *size = at + length;
  }
  memcpy(*bytes + at, from, length);
}

static int memory_write_bytes(p3l_device *device, const void *bytes, size_t length,
                              p3l_file_offset at) {
  memory_device *memory = (memory_device *)device;
  int failed = fault(memory);
  pthread_mutex_lock(&everything);
  if (failed != 0) {
    /* A write that fails may have written its first half. */
    length = length / 2;
  }
  if (length > 0) {
    put(&memory->bytes, &memory->size, &memory->capacity, bytes, length, at.byte);
    memory->writes = realloc(memory->writes, (memory->write_count + 1) * sizeof(*memory->writes));
    must(memory->writes);
    memory_write *write = &memory->writes[memory->write_count++];
    *write = (memory_write){at.byte, length, malloc(length)};
    must(write->bytes);
    memcpy(write->bytes, bytes, length);
  }
  pthread_mutex_unlock(&everything);
  return failed;
}

/* Counts as one write. */
static int memory_write_parts(p3l_device *device, struct iovec *parts, size_t count,
                              p3l_file_offset at) {
  size_t length = 0, done = 0;
  for (size_t i = 0; i < count; i++) length += parts[i].iov_len;
  uint8_t *bytes = malloc(length);
  must(bytes);
  for (size_t i = 0; i < count; done += parts[i++].iov_len)
    memcpy(bytes + done, parts[i].iov_base, parts[i].iov_len);
  int failed = device->write(device, bytes, length, at);
  free(bytes);
  return failed;
}

static void forget_writes(memory_device *memory) {
  for (size_t i = 0; i < memory->write_count; i++) free(memory->writes[i].bytes);
  free(memory->writes);
  memory->writes = NULL;
  memory->write_count = 0;
}

static int memory_sync(p3l_device *device) {
  memory_device *memory = (memory_device *)device;
  int failed = fault(memory);
  if (failed != 0) return failed;
  pthread_mutex_lock(&everything);
  for (size_t i = 0; i < memory->write_count; i++) {
    const memory_write *write = &memory->writes[i];
    put(&memory->stable, &memory->stable_size, &memory->stable_capacity, write->bytes,
        write->length, write->at);
  }
  forget_writes(memory);
  pthread_mutex_unlock(&everything);
  return 0;
}

static int memory_size(p3l_device *device, uint64_t *bytes) {
  pthread_mutex_lock(&everything);
  *bytes = ((memory_device *)device)->size;
  pthread_mutex_unlock(&everything);
  return 0;
}

/* Tests read a device after the pager closed it; they free it themselves. */
static void memory_close(p3l_device *device) { (void)device; }

memory_device *memory_device_new(void) {
  memory_device *memory = calloc(1, sizeof(*memory));
  must(memory);
  memory->device = (p3l_device){.read = memory_read,
                                .write = memory_write_bytes,
                                .write_parts = memory_write_parts,
                                .sync = memory_sync,
                                .size = memory_size,
                                .close = memory_close};
  memory->bytes = malloc(1);
  memory->stable = malloc(1);
  return memory;
}

memory_device *memory_device_of(const uint8_t *bytes, uint64_t size) {
  memory_device *memory = memory_device_new();
  put(&memory->bytes, &memory->size, &memory->capacity, bytes, size, 0);
  put(&memory->stable, &memory->stable_size, &memory->stable_capacity, bytes, size, 0);
  return memory;
}

void memory_device_free(memory_device *memory) {
  forget_writes(memory);
  free(memory->bytes);
  free(memory->stable);
  free(memory);
}

uint8_t *memory_device_crash(const memory_device *memory, bool (*choose)(void *, size_t, size_t),
                             void *state, uint64_t *size) {
  uint8_t *bytes = malloc(memory->stable_size + 1);
  must(bytes);
  memcpy(bytes, memory->stable, memory->stable_size);
  uint64_t capacity = memory->stable_size;
  *size = memory->stable_size;
  for (size_t i = 0; i < memory->write_count; i++) {
    const memory_write *write = &memory->writes[i];
    uint64_t end = write->at + write->length;
    for (uint64_t at = write->at; at < end;) {
      uint64_t next = (at / 512 + 1) * 512 < end ? (at / 512 + 1) * 512 : end;
      if (choose(state, i, at / 512))
        put(&bytes, size, &capacity, write->bytes + (at - write->at), next - at, at);
      at = next;
    }
  }
  return bytes;
}
