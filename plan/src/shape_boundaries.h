/*
 * When a shape is left to core: indexed by the pairs so far, the least number of pairs in which
 * ccopt's plan was slower.
 * Written by `cargo run -p hardmeter-evidence --example shape_boundaries`; do not edit. The method is
 * in docs/design/evidence.md.
 */
#ifndef CCOPT_SHAPE_BOUNDARIES_H
#define CCOPT_SHAPE_BOUNDARIES_H

/* Pairs of a trial; then the next one begins. */
#define SHAPE_PAIRS 16

/* Ratios of ccopt's time to core's above which a pair counts as slower, and as much slower. */
#define SHAPE_SLOWER 1.02
#define SHAPE_MUCH_SLOWER 1.2

/* clang-format off */
/* Slower: refutes "in half of the pairs at most", at 2.5 %. */
static const unsigned char shape_slower_from[SHAPE_PAIRS + 1] = {
    1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 11, 12, 13, 14, 14};

/* Much slower: refutes "in one of eight pairs at most, by noise", at 2.5 %. */
static const unsigned char shape_much_slower_from[SHAPE_PAIRS + 1] = {
    1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 8};
/* clang-format on */

/* Contrary pairs in a row that release a shape: one in 4 by chance, and it may be pinned again. */
#define SHAPE_CONTRARY 2

#endif
