/* Narrowing and restoring a thread's affinity. affinity.c has the invariants. */
#ifndef SPLIT_AFFINITY_H
#define SPLIT_AFFINITY_H

#include "process.h"

void split_place_section(struct split_self *self, struct split_open *open);
void split_unplace_section(struct split_self *self, struct split_open *open);
void split_affinity_widen(struct split_self *self);
void split_affinity_forget(struct split_self *self); /* the thread ends */
void split_affinity_note_wide(void); /* records the CPUs of threads that are not narrowed */
void split_affinity_born(void);      /* a thread's first section */
void split_affinity_child(struct split_self *self); /* after fork */

#endif
