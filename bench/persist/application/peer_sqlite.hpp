/* SQLite: two tables, prepared statements, WAL, synchronous=FULL. */
#include <sqlite3.h>

#include <cstring>

#include "application.hpp"

class peer {
 public:
  peer(const std::string &path, bool create, std::uint64_t) {
    must(sqlite3_open(path.c_str(), &store_));
    run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA mmap_size=4294967296; PRAGMA "
        "cache_size=-262144");
    if (create)
      run("CREATE TABLE words(word TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;"
          "CREATE TABLE nodes(id INTEGER PRIMARY KEY, rank INTEGER NOT NULL, edges BLOB NOT NULL)");
    find_ = prepare("SELECT id FROM words WHERE word = ?");
    rank_ = prepare("SELECT rank FROM words JOIN nodes USING (id) WHERE word = ?");
    node_ = prepare("SELECT rank, edges FROM nodes WHERE id = ?");
    scan_ = prepare("SELECT sum(rank) FROM nodes WHERE id >= ? AND id < ?");
    set_ = prepare("UPDATE nodes SET rank = ? WHERE id = (SELECT id FROM words WHERE word = ?)");
    add_word_ = prepare("INSERT INTO words VALUES (?, ?)");
    add_node_ = prepare("INSERT INTO nodes VALUES (?, ?, ?)");
  }
  ~peer() {
    for (sqlite3_stmt *one : {find_, rank_, node_, scan_, set_, add_word_, add_node_})
      sqlite3_finalize(one);
    sqlite3_close(store_);
  }
  void begin() { run("BEGIN IMMEDIATE"); }
  void commit() { run("COMMIT"); }
  void reserve(std::uint64_t) {}
  void add(std::uint64_t id, std::string_view word, std::uint64_t rank,
           const std::uint64_t *edges) {
    bind(add_node_, 1, id);
    bind(add_node_, 2, rank);
    sqlite3_bind_blob(add_node_, 3, edges, EDGES * sizeof(*edges), SQLITE_STATIC);
    step(add_node_, SQLITE_DONE);
    bind(add_word_, 1, word);
    bind(add_word_, 2, id);
    step(add_word_, SQLITE_DONE);
  }
  void reading(bool begin) { run(begin ? "BEGIN" : "COMMIT"); }
  std::uint64_t rank_of(std::string_view word) {
    bind(rank_, 1, word);
    return one_number(rank_);
  }
  std::uint64_t walk(std::string_view word, unsigned hops) {
    bind(find_, 1, word);
    std::uint64_t sum = 0, id = one_number(find_);
    for (;; hops--) {
      bind(node_, 1, id);
      if (sqlite3_step(node_) != SQLITE_ROW) die("no such node");
      sum += static_cast<std::uint64_t>(sqlite3_column_int64(node_, 0));
      auto *edges = static_cast<const char *>(sqlite3_column_blob(node_, 1));
      std::memcpy(&id, edges + next_edge(sum) * sizeof(id), sizeof(id));
      sqlite3_reset(node_);
      if (hops == 0) return sum;
    }
  }
  std::uint64_t scan(std::uint64_t first, std::uint64_t count) {
    bind(scan_, 1, first);
    bind(scan_, 2, first + count);
    return one_number(scan_);
  }
  void set_rank(std::string_view word, std::uint64_t rank) {
    bind(set_, 1, rank);
    bind(set_, 2, word);
    step(set_, SQLITE_DONE);
  }

 private:
  sqlite3 *store_;
  sqlite3_stmt *find_, *rank_, *node_, *scan_, *set_, *add_word_, *add_node_;

  void must(int code) {
    if (code != SQLITE_OK) die(sqlite3_errmsg(store_));
  }
  void run(const char *sql) { must(sqlite3_exec(store_, sql, nullptr, nullptr, nullptr)); }
  sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *made;
    must(sqlite3_prepare_v3(store_, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr));
    return made;
  }
  static void bind(sqlite3_stmt *to, int at, std::uint64_t number) {
    sqlite3_bind_int64(to, at, static_cast<std::int64_t>(number));
  }
  static void bind(sqlite3_stmt *to, int at, std::string_view text) {
    sqlite3_bind_text(to, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  void step(sqlite3_stmt *one, int expected) {
    if (sqlite3_step(one) != expected) die(sqlite3_errmsg(store_));
    sqlite3_reset(one);
  }
  std::uint64_t one_number(sqlite3_stmt *from) {
    if (sqlite3_step(from) != SQLITE_ROW) die(sqlite3_errmsg(store_));
    auto number = static_cast<std::uint64_t>(sqlite3_column_int64(from, 0));
    sqlite3_reset(from);
    return number;
  }
};
