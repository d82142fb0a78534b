/* P3L by its containers. */
#include <p3l_containers.hpp>

#include "application.hpp"

struct node {
  p3l::field<std::uint64_t> rank;
  p3l::pptr<node> to[EDGES];
};
struct graph {
  p3l::unordered_map<p3l::string, p3l::pptr<node>> words;
  p3l::pptr<node> nodes;
};
P3L_CLASS(node, node, 1);
P3L_CLASS(graph, graph, 1);

class peer {
 public:
  peer(const std::string &path, bool create, std::uint64_t)
      : store_(path, create ? p3l::create() : p3l_options{}), all_(store_.root<graph>("graph")) {}
  void load(bool begin) {
    p3l_error error;
    if ((begin ? p3l_load_begin : p3l_load_end)(store_.get(), &error) != P3L_OK) die(error.message);
  }
  void begin() {
    p3l_error error;
    if (p3l_begin(store_.get(), &error) != P3L_OK) die(error.message);
  }
  void commit() {
    p3l_error error;
    if (p3l_commit(store_.get(), &error) != P3L_OK) die(error.message);
  }
  void reserve(std::uint64_t nodes) {
    store_.set_root("graph", all_ = store_.make<graph>());
    all_->nodes = store_.make_array<node>(nodes);
  }
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    node *nodes = all_->nodes;
    nodes[id].rank = rank;
    for (std::uint64_t at = 0; at < EDGES; at++) nodes[id].to[at] = nodes + edges[at];
    all_->words[word] = nodes + id;
  }
  void reading(bool) {}
  std::uint64_t rank_of(std::string_view word) const { return find(word)->rank; }
  std::uint64_t walk(std::string_view word, unsigned hops) const {
    const node *at = find(word);
    std::uint64_t sum = at->rank;
    for (; hops > 0; hops--) sum += (at = at->to[next_edge(sum)])->rank;
    return sum;
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) const {
    const node *nodes = all_->nodes;
    std::uint64_t sum = 0;
    for (std::uint64_t at = first; at < first + count; at++) sum += nodes[at].rank;
    return sum;
  }
  void set_rank(std::string_view word, std::uint64_t rank) { find(word)->rank = rank; }
  std::uint64_t logged() const { return store_.statistics().bytes_logged; }

 private:
  p3l::store store_;
  graph *all_;
  node *find(std::string_view word) const { return *all_->words.find(word); }
};
