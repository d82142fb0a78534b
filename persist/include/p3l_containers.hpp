/*
 * P3L for C++17: vector, string and unordered_map in a store, built from pptrs like user-defined
 * classes.
 *
 *   struct entry { std::uint64_t count; p3l::vector<std::uint64_t> lines; };
 *   P3L_CLASS(entry, entry, 1);
 *   using index = p3l::unordered_map<p3l::string, entry>;
 *
 *   index *words = store.root<index>("words");
 *   store.transact([&] { (*words)["tree"].lines.push_back(7); });
 *
 * Rules:
 *  1. They are stored in a store: as members of persistent classes, as elements of each other, or
 *     made by store.make<>(). One elsewhere is empty, and adding to it is P3L_MISUSE.
 *  2. Elements are read as const. What changes an element reports it: edit(), operator[] of a map, and
 *     the members that add and remove. Changes are made within a transaction.
 *  3. Persistent classes have no destructors: call clear() before the owner is erased, or what they
 *     hold is garbage that p3l gc collects. A container calls clear() of each element that it removes,
 *     if that has one: a class of your own that has containers needs one that clears them.
 *  4. References and iterators to elements of a vector end when it grows; to those of a map when they
 *     are erased.
 */
#ifndef P3L_CONTAINERS_HPP
#define P3L_CONTAINERS_HPP

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "p3l.hpp"

namespace p3l {

template <class T>
class vector;
class string;
template <class K, class V>
class unordered_map;

namespace detail {

/* ---- types of elements ---- */

template <class T>
struct is_slot : std::false_type {};
template <class T>
struct is_slot<pptr<T>> : std::true_type {};

/* Slots and numbers have a type for each size; classes have that of P3L_CLASS. */
template <class T>
const std::string &name_of() {
  static const std::string name = [] {
    if constexpr (is_slot<T>::value)
      return std::string("p3l.slot");
    else if constexpr (std::is_arithmetic<T>::value || std::is_enum<T>::value)
      return "p3l.number" + std::to_string(sizeof(T));
    else
      return std::string(class_of<T>::type()->name);
  }();
  return name;
}

struct slot {
  pptr<void> to;
};

template <std::size_t bytes>
struct number {
  unsigned char value[bytes];
};

template <class T>
const p3l_type *type_of_element() {
  if constexpr (is_slot<T>::value) {
    static const auto *made = new description<slot>("p3l.slot", 1, nullptr);
    return &made->type;
  } else if constexpr (std::is_arithmetic<T>::value || std::is_enum<T>::value) {
    static const auto *made = new description<number<sizeof(T)>>(name_of<T>().c_str(), 1, nullptr);
    return &made->type;
  } else {
    return class_of<T>::type();
  }
}

template <class T>
std::uint32_t version_of() {
  return type_of_element<T>()->version;
}

/* ---- memory ---- */

/* The store that contains a container. */
inline p3l_store *store_around(const void *container) {
  p3l_store *store = p3l_store_of(container);
  if (__builtin_expect(store != nullptr, 1)) return store;
  p3l_error cause;
  p3l_fail(&cause, P3L_MISUSE,
           "a container of p3l that lies in no store cannot hold anything; make it with "
           "store.make<>(), or as a member of an object in the store");
  throw error(cause);
}

template <class T>
T *room_for(p3l_store *store, std::size_t count, const void *near) {
  void *room = p3l_allocate_array(store, type_of_element<T>(), count, near);
  if (__builtin_expect(!room, 0)) throw error(*p3l_failure(store));
  return static_cast<T *>(room);
}

/* Erases the contents of an element, if it has clear(), as containers do. */
template <class T, class = void>
struct has_clear : std::false_type {};
template <class T>
struct has_clear<T, std::void_t<decltype(std::declval<T &>().clear())>> : std::true_type {};
template <class T>
void clear_element(T &element) {
  if constexpr (has_clear<T>::value) element.clear();
}

}  // namespace detail

/* ---- vector ---- */

template <class T>
class vector {
 public:
  using value_type = T;
  using const_iterator = const T *;

  vector() = default;
  vector(const vector &) = delete; /* it would share its elements: copy them one by one */
  vector &operator=(const vector &) = delete;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::size_t capacity() const noexcept { return capacity_; }
  const T *data() const { return first_.get(); }
  const T *begin() const { return first_.get(); }
  const T *end() const { return first_.get() + size_; }
  const T &operator[](std::size_t at) const { return first_.get()[at]; }
  const T &front() const { return first_.get()[0]; }
  const T &back() const { return first_.get()[size_ - 1]; }
  const T &at(std::size_t at) const {
    if (at >= size_) throw std::out_of_range("p3l::vector::at()");
    return first_.get()[at];
  }

  /* An element that is about to change. */
  T &edit(std::size_t at) { return p3l::edit(first_.get()[at]); }

  template <class... A>
  T &emplace_back(A &&...arguments) {
    if (size_ == capacity_) grow(size_ + 1);
    T *place = first_.get() + size_;
    p3l_dirty(place, sizeof(T));
    if constexpr (std::is_constructible<T, A...>::value)
      ::new (static_cast<void *>(place)) T(std::forward<A>(arguments)...);
    else
      ::new (static_cast<void *>(place)) T{std::forward<A>(arguments)...};
    size_ += 1u;
    return *place;
  }
  void push_back(const T &value) { emplace_back(value); }
  void pop_back() {
    detail::clear_element(p3l::edit(first_.get()[size_ - 1]));
    size_ -= 1u;
  }
  void reserve(std::size_t count) {
    if (count > capacity_) grow(count);
  }
  void clear() {
    while (!empty()) pop_back();
    if (capacity_ == 0) return;
    p3l_delete(detail::store_around(this), first_.get());
    first_ = nullptr;
    capacity_ = 0;
  }

 private:
  pptr<T> first_;
  field<std::uint64_t> size_, capacity_;

  /* Slots keep their contents, fetched or not: elements are moved as bytes. */
  void grow(std::size_t least) {
    std::size_t twice = 2 * capacity_, count = twice > least ? twice : least > 4 ? least : 4;
    p3l_store *store = detail::store_around(this);
    T *old = first_.get(), *fresh = detail::room_for<T>(store, count, this);
    if (size_ > 0) std::memcpy(static_cast<void *>(fresh), old, size_ * sizeof(T));
    first_ = fresh;
    capacity_ = count;
    if (old) p3l_delete(store, old);
  }
};

/* ---- string ---- */

class string {
 public:
  string() = default;
  string(const string &) = delete;
  string &operator=(const string &other) { return assign(other); }
  string &operator=(std::string_view text) { return assign(text); }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const char *c_str() const { return text_ ? text_.get() : ""; }
  operator std::string_view() const { return {c_str(), size_}; }
  std::string str() const { return std::string(std::string_view(*this)); }

  string &assign(std::string_view text) {
    p3l_store *store = detail::store_around(this);
    char *old = text_.get(), *fresh = nullptr;
    if (!text.empty()) {
      fresh = detail::room_for<char>(store, text.size() + 1, this);
      std::memcpy(fresh, text.data(), text.size()); /* a zero follows */
    }
    text_ = fresh;
    size_ = text.size();
    if (old) p3l_delete(store, old);
    return *this;
  }
  void clear() {
    if (text_) assign({});
  }

  friend bool operator==(const string &a, std::string_view b) { return std::string_view(a) == b; }
  friend bool operator!=(const string &a, std::string_view b) { return std::string_view(a) != b; }
  friend bool operator<(const string &a, std::string_view b) { return std::string_view(a) < b; }

 private:
  pptr<char> text_;
  field<std::uint64_t> size_;
};

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
class unordered_map {
 public:
  using entry = map_entry<K, V>;
  using key_view = typename stored_hash<K>::view;

  unordered_map() = default;
  unordered_map(const unordered_map &) = delete;
  unordered_map &operator=(const unordered_map &) = delete;

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
  class const_iterator {
   public:
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
    friend bool operator!=(const const_iterator &a, const const_iterator &b) { return !(a == b); }

   private:
    friend class unordered_map;
    const unordered_map *map_;
    std::size_t next_; /* bucket */
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
    for (std::size_t n = 0; n < before; n++)
      for (entry *at = old[n], *next; at; at = next) {
        next = at->next;
        pptr<entry> *link = bucket(at->hash);
        at->next = *link;
        *link = at;
      }
    if (old) p3l_delete(store, old);
  }
};

/* ---- as classes of a store ---- */

namespace detail {

/* One name for each instance, composed of its elements' names; open refuses it if an element's
 * version differs from the store's. */
template <class C>
const p3l_type *describe(const std::string &name, std::uint32_t version) {
  static const std::string *kept = new std::string(name);
  static const auto *made = new description<C>(kept->c_str(), version, nullptr);
  return &made->type;
}

}  // namespace detail

template <class T>
struct class_of<vector<T>> {
  static const p3l_type *type() {
    (void)registered;
    return detail::describe<vector<T>>("p3l.vector<" + detail::name_of<T>() + ">",
                                       detail::version_of<T>());
  }
  static inline const p3l_type *const registered = detail::describe<vector<T>>(
      "p3l.vector<" + detail::name_of<T>() + ">", detail::version_of<T>());
};

template <>
struct class_of<string> {
  static const p3l_type *type() { return detail::describe<string>("p3l.string", 1); }
  static inline const p3l_type *const registered = detail::describe<string>("p3l.string", 1);
};

template <class K, class V>
struct class_of<map_entry<K, V>> {
  static const p3l_type *type() {
    (void)registered;
    return make();
  }
  static inline const p3l_type *const registered = class_of<map_entry<K, V>>::make();

 private:
  static const p3l_type *make() {
    return detail::describe<map_entry<K, V>>(
        "p3l.entry<" + detail::name_of<K>() + "," + detail::name_of<V>() + ">",
        detail::version_of<K>() * 65536 + detail::version_of<V>());
  }
};

template <class K, class V>
struct class_of<unordered_map<K, V>> {
  static const p3l_type *type() {
    (void)class_of<map_entry<K, V>>::type();
    (void)registered;
    return make();
  }
  static inline const p3l_type *const registered = class_of<unordered_map<K, V>>::make();

 private:
  static const p3l_type *make() {
    return detail::describe<unordered_map<K, V>>(
        "p3l.map<" + detail::name_of<K>() + "," + detail::name_of<V>() + ">", 1);
  }
};

}  // namespace p3l

#endif
