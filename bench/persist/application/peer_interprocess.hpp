/* Boost.Interprocess: a mapped file of fixed size, offset pointers. It has no transactions: a commit flushes
 * the whole mapping, and a crash before it leaves anything. */
#include <boost/container_hash/hash.hpp>
#include <boost/interprocess/allocators/allocator.hpp>
#include <boost/interprocess/containers/string.hpp>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/unordered_map.hpp>

#include "application.hpp"

namespace ipc = boost::interprocess;

struct node {
  std::uint64_t rank;
  ipc::offset_ptr<node> to[EDGES];
};
using segment = ipc::managed_mapped_file;
template <class T>
using allocator = ipc::allocator<T, segment::segment_manager>;
using text = ipc::basic_string<char, std::char_traits<char>, allocator<char>>;
struct hash_text {
  std::size_t operator()(std::string_view word) const {
    return boost::hash_range(word.begin(), word.end());
  }
  std::size_t operator()(const text &word) const {
    return (*this)(std::string_view(word.data(), word.size()));
  }
};
struct same_text {
  template <class A, class B>
  bool operator()(const A &a, const B &b) const {
    return std::string_view(a.data(), a.size()) == std::string_view(b.data(), b.size());
  }
};
using dictionary = boost::unordered_map<text, ipc::offset_ptr<node>, hash_text, same_text,
                                        allocator<std::pair<const text, ipc::offset_ptr<node>>>>;

class peer {
 public:
  peer(const std::string &path, bool create, std::uint64_t nodes)
      : segment_(create ? segment(ipc::create_only, path.c_str(), nodes * 300 + (1u << 20))
                        : segment(ipc::open_only, path.c_str())) {
    words_ = segment_.find_or_construct<dictionary>("words")(segment_.get_allocator<char>());
    nodes_ = segment_.find<node>("nodes").first;
  }
  void begin() {}
  void commit() { segment_.flush(); }
  void reserve(std::uint64_t nodes) { nodes_ = segment_.construct<node>("nodes")[nodes](); }
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    nodes_[id].rank = rank;
    for (std::uint64_t at = 0; at < EDGES; at++) nodes_[id].to[at] = nodes_ + edges[at];
    words_->emplace(text(word.data(), word.size(), segment_.get_allocator<char>()), nodes_ + id);
  }
  void reading(bool) {}
  std::uint64_t rank_of(std::string_view word) const { return find(word)->rank; }
  std::uint64_t walk(std::string_view word, unsigned hops) const {
    const node *at = find(word);
    std::uint64_t sum = at->rank;
    for (; hops > 0; hops--) sum += (at = at->to[next_edge(sum)].get())->rank;
    return sum;
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (std::uint64_t at = first; at < first + count; at++) sum += nodes_[at].rank;
    return sum;
  }
  void set_rank(std::string_view word, std::uint64_t rank) { find(word)->rank = rank; }

 private:
  segment segment_;
  dictionary *words_;
  node *nodes_;
  node *find(std::string_view word) const {
    return words_->find(word, hash_text(), same_text())->second.get();
  }
};
