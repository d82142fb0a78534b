/*
 * p3l::unordered_map: entries in chains. Rules in p3l_containers.hpp.
 */
#ifndef P3L_UNORDERED_MAP_HPP
#define P3L_UNORDERED_MAP_HPP

#include "p3l_string.hpp"

namespace p3l {

/* ---- hashes: the same in every program and version, as they are stored ---- */

template <class K>
struct stored_hash {
  static_assert(std::is_integral<K>::value || std::is_enum<K>::value,
                "a key of p3l::unordered_map is a number, an enum or a p3l::string; give others a "
                "p3l::stored_hash");
  using view = K;
  std::uint64_t operator()(K key) const {
    std::uint64_t x = static_cast<std::uint64_t>(key); /* splitmix64 */
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
  }
};
template <>
struct stored_hash<string> {
  using view = std::string_view;
  std::uint64_t operator()(std::string_view key) const {
    std::uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (unsigned char byte : key) hash = (hash ^ byte) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
  }
};

/* ---- unordered_map ---- */

template <class K, class V>
struct map_entry {
  pptr<map_entry> next;
  std::uint64_t hash = 0;
  K key{};
  V value{};
};

template <class K, class V>
class unordered_map : detail::not_copied<unordered_map<K, V>> {
 public:
  using entry = map_entry<K, V>;
  using key_view = typename stored_hash<K>::view;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  /* nullptr: not found. */
  const V *find(key_view key) const {
    const entry *found = search(key);
    return found ? &found->value : nullptr;
  }
  bool contains(key_view key) const { return search(key) != nullptr; }
  /* A value for changing; nullptr: not found. */
  V *edit(key_view key) {
    entry *found = search(key);
    return found ? &p3l::edit(found->value) : nullptr;
  }
  /* The same, added if it is not found. */
  V &operator[](key_view key) {
    entry *found = search(key);
    return found ? p3l::edit(found->value) : add(key)->value;
  }
  bool erase(key_view key) {
    if (bucket_count_ == 0) return false;
    for (pptr<entry> *link = bucket(stored_hash<K>()(key)); *link; link = &(*link)->next) {
      entry *at = link->get();
      if (!(at->key == key)) continue;
      *link = at->next;
      drop(at);
      size_ -= 1u;
      return true;
    }
    return false;
  }
  void clear() {
    p3l_store *store = p3l_store_of(this);
    for (std::size_t n = 0; n < bucket_count_; n++)
      for (entry *at = buckets_.get()[n], *next; at; at = next) {
        next = at->next;
        drop(at);
      }
    if (bucket_count_ > 0) p3l_delete(store, buckets_.get());
    buckets_ = nullptr;
    bucket_count_ = 0;
    size_ = 0;
  }

  /* Over entries, `key` and `value`, in no order. */
  class const_iterator : public detail::steps<const_iterator, std::forward_iterator_tag, entry> {
   public:
    const_iterator() = default;
    const entry &operator*() const { return *at_; }
    const entry *operator->() const { return at_; }
    const_iterator &operator++() {
      at_ = at_->next;
      settle();
      return *this;
    }
    friend bool operator==(const const_iterator &a, const const_iterator &b) {
      return a.at_ == b.at_;
    }

   private:
    friend class unordered_map;
    const unordered_map *map_ = nullptr;
    std::size_t next_ = 0; /* bucket */
    const entry *at_ = nullptr;

    const_iterator(const unordered_map *map, std::size_t next) : map_(map), next_(next) {
      settle();
    }
    void settle() {
      while (!at_ && next_ < map_->bucket_count_) at_ = map_->buckets_.get()[next_++];
    }
  };
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, bucket_count_}; }

 private:
  pptr<pptr<entry>> buckets_;
  field<std::uint64_t> bucket_count_, size_; /* a power of two, or 0 */

  pptr<entry> *bucket(std::uint64_t hash) const {
    return buckets_.get() + (hash & (bucket_count_ - 1u));
  }

  entry *search(key_view key) const {
    if (bucket_count_ == 0) return nullptr;
    std::uint64_t hash = stored_hash<K>()(key);
    for (entry *at = *bucket(hash); at; at = at->next)
      if (at->hash == hash && at->key == key) return at;
    return nullptr;
  }

  entry *add(key_view key) {
    p3l_store *store = detail::store_around(this);
    if (size_ == bucket_count_) grow(store);
    std::uint64_t hash = stored_hash<K>()(key);
    pptr<entry> *link = bucket(hash);
    void *room = p3l_allocate(store, class_of<entry>::type(), 1, nullptr);
    if (__builtin_expect(!room, 0)) throw error(*p3l_failure(store));
    entry *made = ::new (room) entry();
    made->hash = hash;
    made->key = key;
    made->next = *link;
    *link = made;
    size_ += 1u;
    return made;
  }

  void drop(entry *gone) {
    detail::clear_element(gone->key);
    detail::clear_element(gone->value);
    p3l_delete(p3l_store_of(this), gone);
  }

  void grow(p3l_store *store) {
    std::size_t before = bucket_count_, count = before == 0 ? 8 : 2 * before;
    pptr<entry> *old = buckets_.get(), *fresh = detail::room_for<pptr<entry>>(store, count, this);
    buckets_ = fresh;
    bucket_count_ = count;
    for (std::size_t n = 0; n < before; n++) split(old[n], before, fresh + n);
    if (old) p3l_delete(store, old);
  }

  /* Distributes the entries of a bucket over `to[0]` and `to[before]`, which are empty, in their order: of
   * most of them the next one stays, and they need not be changed. */
  static void split(entry *at, std::size_t before, pptr<entry> *to) {
    pptr<entry> *links[2] = {to, to + before};
    for (entry *next; at; at = next) {
      next = at->next;
      pptr<entry> *&link = links[(at->hash & before) != 0];
      if (link->get() != at) *link = at;
      link = &at->next;
    }
    for (pptr<entry> *link : links)
      if (*link) *link = nullptr;
  }
};

template <class K, class V>
struct unions_of<map_entry<K, V>> : detail::unions_of_entry<map_entry<K, V>, K, V> {};

template <class K, class V>
struct class_of<map_entry<K, V>> : detail::registered_class<class_of<map_entry<K, V>>> {
  static const p3l_type *make() {
    return detail::describe<map_entry<K, V>>(
        "p3l.entry<" + detail::name_of<K>() + "," + detail::name_of<V>() + ">",
        detail::version_of<K>() * 65536 + detail::version_of<V>());
  }
};

template <class K, class V>
struct class_of<unordered_map<K, V>> : detail::registered_class<class_of<unordered_map<K, V>>> {
  static const p3l_type *make() {
    (void)class_of<map_entry<K, V>>::type();
    return detail::describe<unordered_map<K, V>>(
        "p3l.map<" + detail::name_of<K>() + "," + detail::name_of<V>() + ">", 1);
  }
};

}  // namespace p3l

#endif
