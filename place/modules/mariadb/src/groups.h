/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Groups of the thread pool as class queues (thread_handling=pool-of-threads, policy `soft`).
 *
 * A connection belongs to group (its id modulo thread_pool_size) as long as it exists, and only
 * threads of that group serve it: a plugin cannot send a statement to another group. But it can
 * bind the threads of a group to the cores of the queue with most of the group's work. Each second
 * the time of each group is divided among the class queues that the analyzer made (decision.queue):
 *
 *   a queue with at least GROUPS_DOMINANT of the group's time  ->  the group's threads are bound to that queue's cores,
 *                                                                   each when it begins its next statement
 *   no such queue, or cores that idle while others are full    ->  they run anywhere
 *
 * So it helps if each client sends one kind of request (a reporting tool on its own connections
 * beside a web tier's), and has no effect if all connections send all kinds, without the pool, or
 * under another policy.
 */
#ifndef SPLIT_MARIADB_GROUPS_H
#define SPLIT_MARIADB_GROUPS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server.h"
#include "split.h"

void groups_switch(bool on);

/* Whether the server has a thread pool and uses it. */
bool groups_are_pool(void);

/* Whether there is a pool. Most servers have none, and their statements should have no cost. */
extern _Atomic bool groups_matter __attribute__((visibility("hidden")));
void groups_follow(MYSQL_THD thd);
void groups_count(MYSQL_THD thd, split_code_id code);

/* A statement of a connection begins, or has ended as one of this kind, on this thread. */
static inline void groups_begin(MYSQL_THD thd) {
  if (__builtin_expect(atomic_load_explicit(&groups_matter, memory_order_relaxed), 0))
    groups_follow(thd);
}
static inline void groups_end(MYSQL_THD thd, split_code_id code) {
  if (__builtin_expect(atomic_load_explicit(&groups_matter, memory_order_relaxed), 0))
    groups_count(thd, code);
}

/* Number of bound groups. */
unsigned groups_bound(void);

#endif
