/* The standard's containers in RAM: nothing is durable, and opening is building. */
#include <memory>
#include <unordered_map>
#include <vector>

#include "application.hpp"

struct node {
  std::uint64_t rank;
  node *to[EDGES];
};

class peer {
 public:
  peer(const std::string &, bool, std::uint64_t) {}
  void begin() {}
  void commit() {}
  void reserve(std::uint64_t nodes) { nodes_.resize(nodes); }
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    nodes_[id].rank = rank;
    for (std::uint64_t at = 0; at < EDGES; at++) nodes_[id].to[at] = &nodes_[edges[at]];
    words_[std::string(word)] = &nodes_[id];
  }
  void reading(bool) {}
  std::uint64_t rank_of(const std::string &word) const { return words_.find(word)->second->rank; }
  std::uint64_t walk(const std::string &word, unsigned hops) const {
    const node *at = words_.find(word)->second;
    std::uint64_t sum = at->rank;
    for (; hops > 0; hops--) sum += (at = at->to[next_edge(sum)])->rank;
    return sum;
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (std::uint64_t at = first; at < first + count; at++) sum += nodes_[at].rank;
    return sum;
  }
  void set_rank(const std::string &word, std::uint64_t rank) {
    words_.find(word)->second->rank = rank;
  }

 private:
  std::unordered_map<std::string, node *> words_;
  std::vector<node> nodes_;
};
