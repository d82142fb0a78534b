/* Admission of long statements (admission.c). */
#ifndef SPLIT_POSTGRES_ADMISSION_H
#define SPLIT_POSTGRES_ADMISSION_H

#include "compat.h"

#include "split.h"

/* split.admission_timeout, in milliseconds; 0: this session is never held back. */
extern int split_admission_timeout;

/* A top-level statement of this kind is about to run: waits for its turn if its kind is limited.
 * `restrained`: it may be held back as far as its caller knows. May raise an error (cancel). */
void admission_ask(split_code_id code, bool restrained);
/* It has ended, or failed: wakes those that may run now. Does nothing if it did not ask. */
void admission_leave(void);

/* The transaction has executed a statement, or holds locks: its next statements run at once. */
void admission_transaction_began(void);

#endif
