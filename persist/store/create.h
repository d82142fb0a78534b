/*
 * Creates files that get their names only when they are complete. Internal to the pager.
 */
#ifndef P3L_CREATE_H
#define P3L_CREATE_H

/* Makes the names in the folder of `path` durable. Returns 0 or an errno value. */
int p3l_sync_folder(const char *path);

#endif
