/* A store's folder as a whole: its description, its bytes, its copy, its pages in the page cache. */
#ifndef OO1_FOLDER_H
#define OO1_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* description.json: what the store was made for, and by whom. */
typedef struct oo1_description {
  char mode[32];
  char layout[16];
  uint32_t parts;
  bool locality;
  uint64_t graph_seed, digest;
  double load_seconds;
} oo1_description;

#define OO1_DESCRIPTION "description.json"

void oo1_describe(const char *folder, const oo1_description *description);
/* Ends the program if there is none, or a broken one. */
oo1_description oo1_description_of(const char *folder);

/* Of all files but the description. */
uint64_t oo1_folder_bytes(const char *folder);
/* To a folder that is not there yet. */
void oo1_folder_copy(const char *from, const char *to);
void oo1_folder_remove(const char *folder);
/* Syncs its files and drops them from the page cache; returns bytes of them that are still there. */
uint64_t oo1_folder_drop(const char *folder);
/* Reads all of it once. */
void oo1_folder_warm(const char *folder);

#endif
