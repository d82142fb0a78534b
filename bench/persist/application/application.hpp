/*
 * The application that every contestant has: a dictionary of words, each the name of a node, and a graph
 * of nodes with EDGES edges each. A contestant is a class `peer`:
 *
 *   peer(path, create, nodes)
 *   void begin(), commit()                        a durable transaction, where it has any
 *   void reserve(nodes)                           once, first
 *   void add(id, word, rank, edges)               a node and its name
 *   void reading(bool)                            around look-ups, walks, scans
 *   uint64_t rank_of(word)                        a look-up: the rank of the node of that name
 *   uint64_t walk(word, hops)                     from node to node, by the edge that the rank so far says; the sum of ranks
 *   uint64_t scan(first, count)                   the sum of ranks of adjacent ids
 *   void set_rank(word, rank)                     a change
 */
#ifndef APPLICATION_HPP
#define APPLICATION_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

enum : std::uint64_t { EDGES = 8 };

/* What lies in stores of keys and values. */
struct stored_node {
  std::uint64_t rank, edges[EDGES];
};

/* One step of a walk; the same for all. */
inline std::uint64_t next_edge(std::uint64_t sum) { return sum % EDGES; }

[[noreturn]] inline void die(const std::string &what) {
  std::fprintf(stderr, "application: %s\n", what.c_str());
  std::exit(1);
}

#endif
