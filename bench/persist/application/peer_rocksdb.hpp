/* RocksDB: one key space, 'w' and the word or 'n' and the number; batches with sync. */
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <cstring>
#include <memory>

#include "application.hpp"

class peer {
 public:
  peer(const std::string &path, bool create, std::uint64_t) {
    rocksdb::Options options;
    rocksdb::BlockBasedTableOptions table;
    options.create_if_missing = create;
    table.block_cache = rocksdb::NewLRUCache(std::size_t{512} << 20);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB *opened;
    must(rocksdb::DB::Open(options, path, &opened));
    store_.reset(opened);
  }
  void begin() { batch_.Clear(); }
  void commit() {
    rocksdb::WriteOptions options;
    options.sync = true;
    must(store_->Write(options, &batch_));
  }
  void reserve(std::uint64_t) {}
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    stored_node node{rank, {}};
    std::memcpy(node.edges, edges, sizeof(node.edges));
    put(id, node);
    must(batch_.Put(key(word), bytes(id)));
  }
  void reading(bool) {}
  std::uint64_t rank_of(std::string_view word) { return node_of(find(word)).rank; }
  std::uint64_t walk(std::string_view word, unsigned hops) {
    stored_node at = node_of(find(word));
    std::uint64_t sum = at.rank;
    for (; hops > 0; hops--) sum += (at = node_of(at.edges[next_edge(sum)])).rank;
    return sum;
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) {
    std::unique_ptr<rocksdb::Iterator> at(store_->NewIterator({}));
    std::uint64_t sum = 0;
    for (at->Seek(key(first)); count > 0 && at->Valid(); count--, at->Next())
      sum += value_of<stored_node>(at->value()).rank;
    return sum;
  }
  void set_rank(std::string_view word, std::uint64_t rank) {
    std::uint64_t id = find(word);
    stored_node node = node_of(id);
    node.rank = rank;
    put(id, node);
  }

 private:
  std::unique_ptr<rocksdb::DB> store_;
  rocksdb::WriteBatch batch_;

  static void must(const rocksdb::Status &status) {
    if (!status.ok()) die(status.ToString());
  }
  static std::string key(std::string_view word) { return "w" + std::string(word); }
  /* The most significant byte first, so that numbers are in order. */
  static std::string key(std::uint64_t id) {
    std::string made = "n";
    for (int shift = 56; shift >= 0; shift -= 8) made += static_cast<char>(id >> shift & 255);
    return made;
  }
  template <class T>
  static rocksdb::Slice bytes(const T &of) {
    return {reinterpret_cast<const char *>(&of), sizeof(of)};
  }
  template <class T>
  static T value_of(const rocksdb::Slice &from) {
    T value;
    if (from.size() != sizeof(value)) die("a value of another length");
    std::memcpy(&value, from.data(), sizeof(value));
    return value;
  }
  void put(std::uint64_t id, const stored_node &node) { must(batch_.Put(key(id), bytes(node))); }
  template <class T>
  T get(const std::string &key) {
    rocksdb::PinnableSlice found;
    must(store_->Get({}, store_->DefaultColumnFamily(), key, &found));
    return value_of<T>(found);
  }
  std::uint64_t find(std::string_view word) { return get<std::uint64_t>(key(word)); }
  stored_node node_of(std::uint64_t id) { return get<stored_node>(key(id)); }
};
