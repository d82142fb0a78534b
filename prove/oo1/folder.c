#include "folder.h"

#include <cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "die.h"

void oo1_describe(const char *folder, const oo1_description *description) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "benchmark", "oo1");
  cJSON_AddStringToObject(object, "mode", description->mode);
  cJSON_AddStringToObject(object, "layout", description->layout);
  cJSON_AddNumberToObject(object, "parts", description->parts);
  cJSON_AddBoolToObject(object, "locality", description->locality);
  char *seed = oo1_format("%" PRIu64, description->graph_seed);
  char *digest = oo1_format("%016" PRIx64, description->digest);
  cJSON_AddRawToObject(object, "graph_seed", seed);
  cJSON_AddStringToObject(object, "graph", digest);
  cJSON_AddNumberToObject(object, "load_seconds", description->load_seconds);
  char *text = cJSON_Print(object), *path = oo1_format("%s/" OO1_DESCRIPTION, folder);
  FILE *file = fopen(path, "w");
  if (file == NULL || fprintf(file, "%s\n", text) < 0 || fclose(file) != 0)
    oo1_die_errno("%s cannot be written", path);
  free(path), free(text), free(seed), free(digest);
  cJSON_Delete(object);
}

static const cJSON *member(const cJSON *object, const char *name, const char *path) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  if (value == NULL) oo1_die("%s says nothing of %s\n  remedy: load the store again", path, name);
  return value;
}

oo1_description oo1_description_of(const char *folder) {
  char *path = oo1_format("%s/" OO1_DESCRIPTION, folder);
  FILE *file = fopen(path, "r");
  if (file == NULL)
    oo1_die("%s is not a store of this benchmark: %s: %s\n  remedy: make one by oo1-MODE load",
            folder, path, strerror(errno));
  char text[4096];
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  cJSON *object = cJSON_Parse(text);
  if (object == NULL) oo1_die("%s is broken\n  remedy: load the store again", path);
  oo1_description description = {
      .parts = (uint32_t)cJSON_GetNumberValue(member(object, "parts", path)),
      .locality = cJSON_IsTrue(member(object, "locality", path)),
      .graph_seed = (uint64_t)cJSON_GetNumberValue(member(object, "graph_seed", path)),
      .load_seconds = cJSON_GetNumberValue(member(object, "load_seconds", path)),
  };
  const char *mode = cJSON_GetStringValue(member(object, "mode", path));
  const char *layout = cJSON_GetStringValue(member(object, "layout", path));
  const char *digest = cJSON_GetStringValue(member(object, "graph", path));
  if (mode == NULL || layout == NULL || digest == NULL)
    oo1_die("%s is broken\n  remedy: load the store again", path);
  snprintf(description.mode, sizeof description.mode, "%s", mode);
  snprintf(description.layout, sizeof description.layout, "%s", layout);
  description.digest = strtoull(digest, NULL, 16);
  cJSON_Delete(object);
  free(path);
  return description;
}

/* ---- files ---- */

typedef void (*file_visitor)(const char *path, const char *name, void *state);

/* Calls for each regular file; stores have no subfolders. */
static void each_file(const char *folder, file_visitor visit, void *state) {
  DIR *directory = opendir(folder);
  if (directory == NULL) oo1_die_errno("folder %s cannot be read", folder);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char *path = oo1_format("%s/%s", folder, entry->d_name);
    visit(path, entry->d_name, state);
    free(path);
  }
  closedir(directory);
}

static int open_or_die(const char *path, int flags) {
  int descriptor = open(path, flags | O_CLOEXEC, 0666);
  if (descriptor < 0) oo1_die_errno("%s cannot be opened", path);
  return descriptor;
}

static uint64_t size_of(int descriptor, const char *path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) oo1_die_errno("the state of %s cannot be read", path);
  return (uint64_t)status.st_size;
}

/* Adds its disk usage: files of LMDB and libpmemobj are mostly holes. */
static void add_bytes(const char *path, const char *name, void *state) {
  struct stat status;
  if (strcmp(name, OO1_DESCRIPTION) == 0) return;
  if (stat(path, &status) != 0) oo1_die_errno("the state of %s cannot be read", path);
  *(uint64_t *)state += (uint64_t)status.st_blocks * 512;
}

uint64_t oo1_folder_bytes(const char *folder) {
  uint64_t bytes = 0;
  each_file(folder, add_bytes, &bytes);
  return bytes;
}

/* Copies data only: holes stay holes. */
static void copy_file(const char *path, const char *name, void *state) {
  char *target = oo1_format("%s/%s", (const char *)state, name);
  int from = open_or_die(path, O_RDONLY), to = open_or_die(target, O_WRONLY | O_CREAT | O_EXCL);
  off_t bytes = (off_t)size_of(from, path), at = 0;
  if (ftruncate(to, bytes) != 0) oo1_die_errno("%s cannot be made as long as %s", target, path);
  while (at < bytes && (at = lseek(from, at, SEEK_DATA)) >= 0) {
    off_t end = lseek(from, at, SEEK_HOLE), written = at;
    while (at < end) {
      ssize_t moved = copy_file_range(from, &at, to, &written, (size_t)(end - at), 0);
      if (moved <= 0) oo1_die_errno("%s cannot be copied to %s", path, target);
    }
  }
  /* Synced, or the first commits would write it to the disk. */
  if (fsync(to) != 0 || close(to) != 0) oo1_die_errno("%s cannot be written", target);
  close(from);
  free(target);
}

void oo1_folder_copy(const char *from, const char *to) {
  if (mkdir(to, 0777) != 0) oo1_die_errno("folder %s cannot be made", to);
  each_file(from, copy_file, (void *)to);
}

static void remove_file(const char *path, const char *name, void *state) {
  (void)name, (void)state;
  if (unlink(path) != 0) oo1_die_errno("%s cannot be removed", path);
}

void oo1_folder_remove(const char *folder) {
  each_file(folder, remove_file, NULL);
  if (rmdir(folder) != 0) oo1_die_errno("folder %s cannot be removed", folder);
}

static uint64_t resident(int descriptor, uint64_t bytes) {
  if (bytes == 0) return 0;
  void *view = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (view == MAP_FAILED) return 0;
  size_t pages = (bytes + 4095) / 4096, there = 0;
  unsigned char *in_memory = oo1_allocate(pages);
  if (mincore(view, bytes, in_memory) == 0)
    for (size_t i = 0; i < pages; i++) there += in_memory[i] & 1;
  free(in_memory);
  munmap(view, bytes);
  return there * 4096;
}

static void drop_file(const char *path, const char *name, void *state) {
  (void)name;
  int descriptor = open_or_die(path, O_RDONLY);
  if (fsync(descriptor) != 0) oo1_die_errno("%s cannot be synced", path);
  int code = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (code != 0) oo1_die("%s cannot be dropped from the page cache: %s", path, strerror(code));
  *(uint64_t *)state += resident(descriptor, size_of(descriptor, path));
  close(descriptor);
}

uint64_t oo1_folder_drop(const char *folder) {
  uint64_t left = 0;
  each_file(folder, drop_file, &left);
  return left;
}

static void warm_file(const char *path, const char *name, void *state) {
  (void)name, (void)state;
  int descriptor = open_or_die(path, O_RDONLY);
  char *buffer = oo1_allocate(1 << 20);
  off_t at = 0;
  while ((at = lseek(descriptor, at, SEEK_DATA)) >= 0) { /* skip holes */
    ssize_t bytes = pread(descriptor, buffer, 1 << 20, at);
    if (bytes <= 0) break;
    at += bytes;
  }
  free(buffer);
  close(descriptor);
}

void oo1_folder_warm(const char *folder) { each_file(folder, warm_file, NULL); }
