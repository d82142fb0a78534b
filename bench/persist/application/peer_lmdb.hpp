/* LMDB: words by text, nodes by number; its default durability. */
#include <lmdb.h>

#include <cstring>
#include <sys/stat.h>

#include "application.hpp"

class peer {
 public:
  peer(const std::string &path, bool create, std::uint64_t) {
    must(mdb_env_create(&environment_));
    must(mdb_env_set_maxdbs(environment_, 2));
    must(mdb_env_set_mapsize(environment_, std::size_t{4} << 30));
    must(mdb_env_open(environment_, path.c_str(), MDB_NOSUBDIR, 0644));
    begin();
    unsigned flags = create ? MDB_CREATE : 0;
    must(mdb_dbi_open(transaction_, "words", flags, &words_));
    must(mdb_dbi_open(transaction_, "nodes", flags | MDB_INTEGERKEY, &nodes_));
    commit();
  }
  ~peer() { mdb_env_close(environment_); }
  void begin() { must(mdb_txn_begin(environment_, nullptr, 0, &transaction_)); }
  void commit() { must(mdb_txn_commit(transaction_)); }
  void reserve(std::uint64_t) {}
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    stored_node node{rank, {}};
    std::memcpy(node.edges, edges, sizeof(node.edges));
    put(nodes_, {sizeof(id), &id}, {sizeof(node), &node});
    put(words_, key(word), {sizeof(id), &id});
  }
  void reading(bool begin) {
    if (begin)
      must(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction_));
    else
      mdb_txn_abort(transaction_);
  }
  std::uint64_t rank_of(std::string_view word) { return node_of(find(word))->rank; }
  std::uint64_t walk(std::string_view word, unsigned hops) {
    const stored_node *at = node_of(find(word));
    std::uint64_t sum = at->rank;
    for (; hops > 0; hops--) sum += (at = node_of(at->edges[next_edge(sum)]))->rank;
    return sum;
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) {
    MDB_cursor *cursor;
    MDB_val at = {sizeof(first), &first}, value;
    std::uint64_t sum = 0;
    must(mdb_cursor_open(transaction_, nodes_, &cursor));
    for (MDB_cursor_op how = MDB_SET; count > 0; count--, how = MDB_NEXT) {
      must(mdb_cursor_get(cursor, &at, &value, how));
      sum += static_cast<const stored_node *>(value.mv_data)->rank;
    }
    mdb_cursor_close(cursor);
    return sum;
  }
  void set_rank(std::string_view word, std::uint64_t rank) {
    std::uint64_t id = find(word);
    stored_node node = *node_of(id);
    node.rank = rank;
    put(nodes_, {sizeof(id), &id}, {sizeof(node), &node});
  }

 private:
  MDB_env *environment_;
  MDB_txn *transaction_;
  MDB_dbi words_, nodes_;

  static void must(int code) {
    if (code != 0) die(mdb_strerror(code));
  }
  static MDB_val key(std::string_view word) {
    return {word.size(), const_cast<char *>(word.data())};
  }
  void put(MDB_dbi where, MDB_val key, MDB_val value) {
    must(mdb_put(transaction_, where, &key, &value, 0));
  }
  std::uint64_t find(std::string_view word) {
    MDB_val at = key(word), value;
    must(mdb_get(transaction_, words_, &at, &value));
    return *static_cast<const std::uint64_t *>(value.mv_data);
  }
  const stored_node *node_of(std::uint64_t id) {
    MDB_val at = {sizeof(id), &id}, value;
    must(mdb_get(transaction_, nodes_, &at, &value));
    return static_cast<const stored_node *>(value.mv_data);
  }
};
