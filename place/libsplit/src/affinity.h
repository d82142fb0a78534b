/* A thread's affinity is narrowed and given back. affinity.c has the invariants. */
#ifndef SPLIT_AFFINITY_H
#define SPLIT_AFFINITY_H

#include "process.h"

void split_place_section(struct split_self *self, struct split_open *open);
void split_unplace_section(struct split_self *self, struct split_open *open);
void split_affinity_widen(struct split_self *self);
void split_affinity_forget(struct split_self *self); /* the thread ends */
void split_affinity_note_wide(void); /* the CPUs of threads that are not narrowed: at the start */
void split_affinity_born(void);      /* a thread's first section */
void split_affinity_child(struct split_self *self); /* after fork */

#endif
