/* A thread's time slice is changed and given back. slice.c has the invariants. */
#ifndef SPLIT_SLICE_H
#define SPLIT_SLICE_H

#include "process.h"

void split_slice_section(struct split_self *self, struct split_open *open);
/* Of a kind that runs in the background: until the next one is known, the thread is as one of a short kind. */
void split_slice_section_ends(struct split_self *self, struct split_open *open);
void split_slice_forget(struct split_self *self); /* the thread ends */
void split_slice_born(void);                      /* a thread's first section */
void split_slice_child(struct split_self *self);  /* after fork */
/* Remembers the slice of threads that are not changed, at the start. false: the kernel has none. */
bool split_slice_note_first(void);
/* The slice of a kind for this thread, if that has one and placement goes on; else its own. */
bool split_slice_for(struct split_self *self, uint32_t code);

#endif
