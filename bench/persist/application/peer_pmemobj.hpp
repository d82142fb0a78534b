/* libpmemobj on a file system without DAX: a pool of fixed size, 16-byte pointers, undo logs. Its dictionary
 * is a hash table of chains, as it has no containers for C. */
#include <libpmemobj.h>

#include <cstring>

#include "application.hpp"

struct node {
  std::uint64_t rank;
  PMEMoid to[EDGES];
};
struct entry {
  PMEMoid next, named;
  std::uint64_t length;
  char word[];
};
struct root {
  PMEMoid buckets, nodes;
  std::uint64_t bucket_count;
};

class peer {
 public:
  peer(const std::string &path, bool create, std::uint64_t nodes)
      : pool_(create ? pmemobj_create(path.c_str(), "application", nodes * 420 + (64u << 20), 0644)
                     : pmemobj_open(path.c_str(), "application")) {
    if (!pool_) die(pmemobj_errormsg());
    root_ = static_cast<root *>(pmemobj_direct(pmemobj_root(pool_, sizeof(root))));
  }
  ~peer() { pmemobj_close(pool_); }
  void begin() { must(pmemobj_tx_begin(pool_, nullptr, TX_PARAM_NONE)); }
  void commit() {
    pmemobj_tx_commit();
    must(pmemobj_tx_end());
  }
  void reserve(std::uint64_t nodes) {
    changes(root_, sizeof(*root_));
    root_->bucket_count = nodes;
    root_->nodes = allocate(nodes * sizeof(node));
    root_->buckets = allocate(nodes * sizeof(PMEMoid));
  }
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    node *made = node_of(id);
    changes(made, sizeof(*made));
    made->rank = rank;
    for (std::uint64_t at = 0; at < EDGES; at++) made->to[at] = oid_of(edges[at]);
    PMEMoid *bucket = bucket_of(word), fresh = allocate(sizeof(entry) + word.size());
    auto *added = static_cast<entry *>(pmemobj_direct(fresh));
    changes(bucket, sizeof(*bucket));
    added->next = *bucket;
    added->named = oid_of(id);
    added->length = word.size();
    std::memcpy(added->word, word.data(), word.size());
    *bucket = fresh;
  }
  void reading(bool) {}
  std::uint64_t rank_of(std::string_view word) const { return find(word)->rank; }
  std::uint64_t walk(std::string_view word, unsigned hops) const {
    const node *at = find(word);
    std::uint64_t sum = at->rank;
    for (; hops > 0; hops--) {
      at = static_cast<const node *>(pmemobj_direct(at->to[next_edge(sum)]));
      sum += at->rank;
    }
    return sum;
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (const node *at = node_of(first), *end = at + count; at < end; at++) sum += at->rank;
    return sum;
  }
  void set_rank(std::string_view word, std::uint64_t rank) {
    node *found = find(word);
    changes(&found->rank, sizeof(found->rank));
    found->rank = rank;
  }

 private:
  PMEMobjpool *pool_;
  root *root_;

  static void must(int code) {
    if (code != 0) die(pmemobj_errormsg());
  }
  static void changes(void *from, std::size_t bytes) {
    must(pmemobj_tx_add_range_direct(from, bytes));
  }
  static PMEMoid allocate(std::size_t bytes) {
    PMEMoid made = pmemobj_tx_zalloc(bytes, 1);
    if (OID_IS_NULL(made)) die(pmemobj_errormsg());
    return made;
  }
  PMEMoid oid_of(std::uint64_t id) const {
    return {root_->nodes.pool_uuid_lo, root_->nodes.off + id * sizeof(node)};
  }
  node *node_of(std::uint64_t id) const { return static_cast<node *>(pmemobj_direct(oid_of(id))); }
  PMEMoid *bucket_of(std::string_view word) const {
    std::size_t at = std::hash<std::string_view>()(word) % root_->bucket_count;
    return static_cast<PMEMoid *>(pmemobj_direct(root_->buckets)) + at;
  }
  node *find(std::string_view word) const {
    for (PMEMoid at = *bucket_of(word); !OID_IS_NULL(at);) {
      auto *here = static_cast<const entry *>(pmemobj_direct(at));
      if (std::string_view(here->word, here->length) == word)
        return static_cast<node *>(pmemobj_direct(here->named));
      at = here->next;
    }
    die("no such word");
  }
};
