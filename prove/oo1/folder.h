/* A store's folder: its description, size, copy, and pages in the page cache. */
#ifndef OO1_FOLDER_H
#define OO1_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* description.json: the parameters and the creator of a store. */
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
/* Ends the program if the description is missing or damaged. */
oo1_description oo1_description_of(const char *folder);

/* Size of all files except the description. */
uint64_t oo1_folder_bytes(const char *folder);
/* Copies to a new folder. */
void oo1_folder_copy(const char *from, const char *to);
void oo1_folder_remove(const char *folder);
/* Syncs its files and drops them from the page cache; returns the number of bytes that remain
 * there. */
uint64_t oo1_folder_drop(const char *folder);
/* Reads all of it once. */
void oo1_folder_warm(const char *folder);

#endif
