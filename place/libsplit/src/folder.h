/*
 * The folder of the segments, and its files: created atomically, alive as long as a process holds a
 * lock on them, and trusted only if no other user can truncate them.
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
  bool crowded; /* all users may put files there: only root's and the user's own are used */
  mode_t files; /* mode of new files */
  const char *path;
};

/* Creates the folder if possible. false: `reason` has the reason. */
bool split_folder_open(const char *path, struct split_folder *folder, char reason[SPLIT_REASON]);
void split_folder_close(struct split_folder *folder);

/* The required properties of a file. */
struct split_file {
  const char *name;
  uint64_t size; /* size of a new file */
  /* Checks whether an existing file can be used. `alone`: no other process uses it, and it may
   * be replaced. If not, writes `reason`. */
  bool (*fits)(int descriptor, uint64_t size, bool alone, void *context, char reason[SPLIT_REASON]);
  /* Writes the beginning of a new file; the rest is zero. false: errno is set. */
  bool (*fill)(int descriptor, void *context);
  void *context;
};

/* Opens the file, creates it if missing, and replaces it if it does not fit and no process uses
 * it. The descriptor holds a shared lock, which shows that this process or a child is alive. -1:
 * `reason` has the reason. */
int split_file_join(const struct split_folder *folder, const struct split_file *file,
                    char reason[SPLIT_REASON]);

#endif
