/*
 * What the rest of the library offers to the class queues and to modules of servers: a kind's decision, whether sections are measured and
 * placement goes on, and a thread's affinity. With the library off, there are no kinds, and nothing is placed.
 */
#ifndef SPLIT_DECIDED_H
#define SPLIT_DECIDED_H

#include "segment.h"
#include "split.h"

/* The code id that split_begin would find or make for this key; no section begins. */
split_code_id split_kind_of(const void *key, size_t length);

/* Sections are measured: it is not switched off, neither by the application nor `hardmeter split off`. */
bool split_collecting(void);

/* The same as split_begin, of a text key whose hash is known already (hm_hash.h: hm_hash_text of at most SPLIT_KEY_LENGTH bytes). */
split_code_id split_begin_hashed(split_section *section, uint64_t hash, const void *key,
                                 size_t length);

/* The application wants to be placed, the analyzer lives, and has placement on. */
bool split_placing(uint64_t now_ns);

struct split_decided {
  uint32_t sequence;
  uint8_t class_;
  uint8_t actuation;
  uint32_t queue;
  uint64_t cpu_mask[SPLIT_CPUS_MAX / 64];
};

/* Changes whenever the kind's decision does; 0: nothing was decided yet, or no such kind. */
uint32_t split_decision_sequence(split_code_id code);
/* A copy of one piece. false: it is being written just now, or there is no such kind. */
bool split_decided(split_code_id code, struct split_decided *decided);

/* Binds this thread to those of the processors that it was allowed at first, and has it released when the analyzer falls silent.
 * false: the kernel refused, or the table is full. */
bool split_thread_narrow(const uint64_t cpu_mask[SPLIT_CPUS_MAX / 64]);
/* Gives the thread its first affinity back. */
void split_thread_widen(void);
bool split_thread_is_narrowed(void);

#endif
