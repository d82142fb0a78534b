/*
 * The folder of the segments, and the files in it: made in one step, alive as long as a process holds a lock on them, and trusted only
 * if no other user can truncate them.
 */
#ifndef SPLIT_FOLDER_H
#define SPLIT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SPLIT_DEFAULT_FOLDER "/run/hardmeter-split"
#define SPLIT_REASON 256 /* bytes of a line with the reason */

struct split_folder {
  int descriptor;
  bool crowded; /* all users may put files there: only root's and our own are used */
  mode_t files; /* the mode of our files */
  const char *path;
};

/* Makes the folder if possible. false: `reason` has the reason. */
bool split_folder_open(const char *path, struct split_folder *folder, char reason[SPLIT_REASON]);
void split_folder_close(struct split_folder *folder);

/* The required properties of a file. */
struct split_file {
  const char *name;
  uint64_t size; /* of a new one */
  /* Can what is there be used? `alone`: no other process uses it, and it may be replaced. Writes `reason` if not. */
  bool (*fits)(int descriptor, uint64_t size, bool alone, void *context, char reason[SPLIT_REASON]);
  /* Writes what a new one begins with; all else is zero. false with errno. */
  bool (*fill)(int descriptor, void *context);
  void *context;
};

/* Opens the file, creates it if missing, and replaces it if it does not fit and no process uses it. The descriptor holds a shared
 * lock: our sign of life, and that of our children. -1: `reason` says why. */
int split_file_join(const struct split_folder *folder, const struct split_file *file,
                    char reason[SPLIT_REASON]);

#endif
