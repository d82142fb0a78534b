/*
 * Making files that are whole under their names. Inside of the pager only.
 */
#ifndef P3L_CREATE_H
#define P3L_CREATE_H

/* Makes the names in the folder of `path` durable. Returns 0 or an errno value. */
int p3l_sync_folder(const char *path);

#endif
