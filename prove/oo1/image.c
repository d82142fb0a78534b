#include "image.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "die.h"
#include "files.h"
#include "redo.h"

static const char magic[16] = "OO1 image 1";

int image_open(const char *path, uint64_t *bytes) {
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) oo1_die_errno("%s cannot be opened", path);
  redo_recover(path, descriptor);
  struct stat status;
  image_header header;
  if (fstat(descriptor, &status) != 0) oo1_die_errno("the state of %s cannot be read", path);
  oo1_read_all(descriptor, path, &header, sizeof header, 0);
  if (memcmp(header.magic, magic, sizeof magic) != 0)
    oo1_die("%s is not an image: it begins otherwise\n  remedy: load the store again", path);
  *bytes = (uint64_t)status.st_size;
  if (*bytes % IMAGE_PAGE != 0 || header.end > *bytes)
    oo1_die("%s is cut off\n  remedy: load the store again", path);
  return descriptor;
}

int image_create(const char *path) {
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) oo1_die_errno("%s cannot be made", path);
  image_header header = {.end = IMAGE_PAGE};
  memcpy(header.magic, magic, sizeof magic);
  oo1_write_all(descriptor, path, &header, sizeof header, 0);
  return descriptor;
}
