/*
 * Processes that read and back up the store of `p3l torture` while its writer is killed; they
 * are killed, too. Each reader has a model of the store and compares every version that it sees.
 */
#ifndef P3L_TORTURE_READERS_H
#define P3L_TORTURE_READERS_H

#include "torture_model.h"

typedef struct p3l_torture_readers p3l_torture_readers;

/* Starts `count` readers of the store at `path`, whose state is the model's. NULL: no memory or
 * no process. */
p3l_torture_readers *p3l_torture_readers_start(const char *path, const model *model,
                                               unsigned count);
/* Called before a writer is killed for the n-th time: begins a backup now and then, and kills
 * readers. */
void p3l_torture_readers_disturb(p3l_torture_readers *readers, const model *model, uint64_t choice);
/* Called afterwards, with the model as of the store: checks the processes that ended. 0, or 1
 * after a report. */
int p3l_torture_readers_check(p3l_torture_readers *readers, const model *model);
/* Ends them, and prints what they did. 0, or 1 after a report. */
int p3l_torture_readers_end(p3l_torture_readers *readers, const model *model);

#endif
