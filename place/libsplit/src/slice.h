/* Changing and restoring a thread's time slice. slice.c has the invariants. */
#ifndef SPLIT_SLICE_H
#define SPLIT_SLICE_H

#include "process.h"

void split_slice_section(struct split_self *self, struct split_open *open);
/*
 * For a kind that runs in the background: until the next kind is known, the thread is treated as
 * one of a short kind.
 */
void split_slice_section_ends(struct split_self *self, struct split_open *open);
void split_slice_forget(struct split_self *self); /* the thread ends */
void split_slice_born(void);                      /* a thread's first section */
void split_slice_child(struct split_self *self);  /* after fork */
/*
 * Remembers the slice of threads that are not changed, at the start. false: the kernel has no
 * slices.
 */
bool split_slice_note_first(void);
/*
 * Sets the slice of a kind for this thread, if the kind has one and placement is active; otherwise
 * the thread's own.
 */
bool split_slice_for(struct split_self *self, uint32_t code);

#endif
