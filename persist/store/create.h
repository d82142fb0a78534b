/*
 * Making files that are whole under their names. Inside of the pager only.
 */
#ifndef P3L_CREATE_H
#define P3L_CREATE_H

/* Names in the folder of `path` are durable when it returns 0; otherwise an errno value. */
int p3l_sync_folder(const char *path);

#endif
