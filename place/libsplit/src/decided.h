/*
 * Functions for the class queues and for servers' modules: a kind's decision, whether sections are
 * measured and placement is active, and a thread's affinity. With the library off, there are no
 * kinds, and nothing is placed.
 */
#ifndef SPLIT_DECIDED_H
#define SPLIT_DECIDED_H

#include "segment.h"
#include "split.h"

/* The code id that split_begin would find or create for this key; no section begins. */
split_code_id split_kind_of(const void *key, size_t length);

/* True if sections are measured: neither the application nor `hardmeter split off` has switched
 * it off. */
bool split_collecting(void);

/* The same as split_begin for a text key whose hash is known (hm_hash.h: hm_hash_text of at most
 * SPLIT_KEY_LENGTH bytes). */
split_code_id split_begin_hashed(split_section *section, uint64_t hash, const void *key,
                                 size_t length);

/* True if the application wants placement, the analyzer is alive, and placement is on. */
bool split_placing(uint64_t now_ns);

struct split_decided {
  uint32_t sequence;
  uint8_t class_;
  uint8_t actuation;
  uint32_t queue;
  uint64_t cpu_mask[SPLIT_CPUS_MAX / 64];
};

/* Changes with each change of the kind's decision; 0: no decision yet, or no such kind. */
uint32_t split_decision_sequence(split_code_id code);
/* A consistent copy. false: it is being written, or there is no such kind. */
bool split_decided(split_code_id code, struct split_decided *decided);

/* Binds this thread to those of the processors that it could use originally; it is released when
 * the analyzer falls silent. false: the kernel refused, or the table is full. */
bool split_thread_narrow(const uint64_t cpu_mask[SPLIT_CPUS_MAX / 64]);
/* Restores the thread's original affinity. */
void split_thread_widen(void);
bool split_thread_is_narrowed(void);

#endif
