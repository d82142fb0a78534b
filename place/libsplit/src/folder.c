/* Creates, checks and locks the segments' files. folder.h has the rules. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Limit of retries, 1 ms each, while other processes replace the file. The analyzer and starting
 * processes hold locks for less. */
#define TRIES 100

bool split_folder_open(const char *path, struct split_folder *folder, char reason[SPLIT_REASON]) {
  /* The first process creates the folder for all users of the machine, like /tmp. */
  if (mkdir(path, 01777) == 0 && chmod(path, 01777) != 0) {
    snprintf(reason, SPLIT_REASON, "%s: %s", path, strerror(errno));
    return false;
  }
  int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    snprintf(reason, SPLIT_REASON,
             "%s: %s (make a folder that this server may write to, or name another: "
             "SPLIT_DIRECTORY)",
             path, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return false;
  }
  bool like_tmp = (status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) != 0;
  bool of_others = status.st_uid != 0 && status.st_uid != geteuid();
  folder->descriptor = descriptor;
  folder->crowded = like_tmp || of_others;
  /* Users who may write to the folder may use the files; users who may only read it must not
   * read statements. */
  mode_t writers = folder->crowded ? 0 : status.st_mode & 0222;
  folder->files = 0600 | writers | writers << 1;
  folder->path = path;
  return true;
}

void split_folder_close(struct split_folder *folder) {
  close(folder->descriptor);
  folder->descriptor = -1;
}

/* True if the name still refers to the open file. */
static bool still_named(const struct split_folder *folder, const char *name, int descriptor) {
  struct stat ours, named;
  return fstat(descriptor, &ours) == 0 &&
         fstatat(folder->descriptor, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Creates a file without its final name, of full size, filled and locked. Its pages are reserved
 * now: a full disk is an error here, not a SIGBUS later. */
static int make(const struct split_folder *folder, const struct split_file *file, char *temporary,
                size_t length, char reason[SPLIT_REASON]) {
  static _Atomic unsigned made;
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < file->size) {
    /* Continuing would raise SIGXFSZ. */
    snprintf(reason, SPLIT_REASON, "%s/%s: needs %llu bytes, and the limit of file sizes is lower",
             folder->path, file->name, (unsigned long long)file->size);
    return -1;
  }
  snprintf(temporary, length, ".new-%d-%u", (int)getpid(), atomic_fetch_add(&made, 1));
  int descriptor = openat(folder->descriptor, temporary,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    snprintf(reason, SPLIT_REASON, "%s: no file can be made: %s", folder->path, strerror(errno));
    return -1;
  }
  int error = posix_fallocate(descriptor, 0, (off_t)file->size);
  if (error == 0 &&
      (fchmod(descriptor, folder->files) != 0 || flock(descriptor, LOCK_SH | LOCK_NB) != 0 ||
       !file->fill(descriptor, file->context))) {
    error = errno;
  }
  if (error == 0) return descriptor;
  snprintf(reason, SPLIT_REASON, "%s/%s: no %llu bytes: %s%s", folder->path, file->name,
           (unsigned long long)file->size, strerror(error),
           error == ENOSPC ? " (a larger file system, or fewer kinds: SPLIT_HASH_SIZE)" : "");
  unlinkat(folder->descriptor, temporary, 0);
  close(descriptor);
  return -1;
}

/* Gives a new file its name. `over`: replaces an existing file. -1 with an empty reason: another
 * process was first. */
static int make_named(const struct split_folder *folder, const struct split_file *file, bool over,
                      char reason[SPLIT_REASON]) {
  char temporary[40];
  int descriptor = make(folder, file, temporary, sizeof temporary, reason);
  if (descriptor < 0) return -1;
  int here = folder->descriptor;
  if (over ? renameat(here, temporary, here, file->name) == 0
           : linkat(here, temporary, here, file->name, 0) == 0) {
    if (!over) unlinkat(here, temporary, 0);
    return descriptor;
  }
  if (errno != EEXIST)
    snprintf(reason, SPLIT_REASON, "%s/%s: %s", folder->path, file->name, strerror(errno));
  unlinkat(here, temporary, 0);
  close(descriptor);
  return -1;
}

/* Opens an existing file if it can be trusted. -1 with errno ENOENT and an empty reason: there
 * is none. */
static int open_trusted(const struct split_folder *folder, const char *name, uint64_t *size,
                        char reason[SPLIT_REASON]) {
  /* Non-blocking: it might be a FIFO. */
  int descriptor = openat(folder->descriptor, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    int error = errno;
    if (error != ENOENT)
      snprintf(reason, SPLIT_REASON, "%s/%s: %s%s", folder->path, name, strerror(error),
               error == ELOOP ? " (a symbolic link is not followed)" : "");
    errno = error;
    return -1;
  }
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    snprintf(reason, SPLIT_REASON, "%s/%s is not a plain file", folder->path, name);
  } else if (folder->crowded && status.st_uid != 0 && status.st_uid != geteuid()) {
    snprintf(reason, SPLIT_REASON,
             "%s/%s belongs to another user (%u), who could replace it while it is in use: give "
             "each its "
             "own folder, or all a folder without the sticky bit",
             folder->path, name, (unsigned)status.st_uid);
  } else {
    *size = (uint64_t)status.st_size;
    return descriptor;
  }
  close(descriptor);
  errno = EPERM;
  return -1;
}

/* One try. -1 with an empty reason: another process is working on it, try again. */
static int join_once(const struct split_folder *folder, const struct split_file *file,
                     char reason[SPLIT_REASON]) {
  uint64_t size = 0;
  int descriptor = open_trusted(folder, file->name, &size, reason);
  if (descriptor < 0) return errno == ENOENT ? make_named(folder, file, false, reason) : -1;
  bool alone = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if ((alone || flock(descriptor, LOCK_SH | LOCK_NB) == 0) &&
      still_named(folder, file->name, descriptor)) {
    bool fits = file->fits(descriptor, size, alone, file->context, reason);
    if (!fits && alone) {
      reason[0] = '\0';
      int made = make_named(folder, file, true, reason);
      close(descriptor);
      return made;
    }
    /* Converting to a shared lock releases the lock for a moment. */
    if (fits && (!alone || (flock(descriptor, LOCK_SH | LOCK_NB) == 0 &&
                            still_named(folder, file->name, descriptor)))) {
      return descriptor;
    }
  }
  close(descriptor);
  return -1;
}

int split_file_join(const struct split_folder *folder, const struct split_file *file,
                    char reason[SPLIT_REASON]) {
  reason[0] = '\0';
  for (int i = 0; i < TRIES; i++) {
    int descriptor = join_once(folder, file, reason);
    if (descriptor >= 0 || reason[0] != '\0') return descriptor;
    struct timespec wait = {0, 1000000};
    nanosleep(&wait, NULL);
  }
  snprintf(reason, SPLIT_REASON, "%s/%s is locked by another program", folder->path, file->name);
  return -1;
}
