/*
 * P3L for C++17: vector, deque, string, unordered_map, map, optional and unique_ptr in a store, built
 * from pptrs like user-defined classes.
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
#include <iterator>
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
template <class T>
class unique_ptr;

namespace detail {

/* ---- types of elements ---- */

template <class T>
struct is_slot : std::false_type {};
template <class T>
struct is_slot<pptr<T>> : std::true_type {};
template <class T>
struct is_slot<unique_ptr<T>> : std::true_type {};

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

/* By a constructor, or as an aggregate. */
template <class T, class... A>
T *construct(void *place, A &&...arguments) {
  if constexpr (std::is_constructible<T, A...>::value)
    return ::new (place) T(std::forward<A>(arguments)...);
  else
    return ::new (place) T{std::forward<A>(arguments)...};
}

/* An element comes where none is, or goes; what it leaves is zero, so that no slot of it dangles. */
template <class T, class... A>
T *make_element(T *place, A &&...arguments) {
  p3l_dirty(place, sizeof(T));
  return construct<T>(place, std::forward<A>(arguments)...);
}
template <class T>
void drop_element(T *element) {
  p3l_dirty(element, sizeof(T));
  clear_element(*element);
  std::memset(static_cast<void *>(element), 0, sizeof(T));
}

}  // namespace detail

/* ---- vector ---- */

template <class T>
class vector {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using const_reference = const T &;
  using const_iterator = const T *;
  using iterator = const_iterator;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  vector() = default;
  vector(const vector &) = delete; /* it would share its elements: copy them one by one */
  vector &operator=(const vector &) = delete;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::size_t capacity() const noexcept { return capacity_; }
  const T *data() const { return first_.get(); }
  const T *begin() const { return first_.get(); }
  const T *end() const { return first_.get() + size_; }
  const T *cbegin() const { return begin(); }
  const T *cend() const { return end(); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
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
    T *place = detail::make_element(first_.get() + size_, std::forward<A>(arguments)...);
    size_ += 1u;
    return *place;
  }
  void push_back(const T &value) { emplace_back(value); }
  void pop_back() {
    detail::drop_element(first_.get() + size_ - 1);
    size_ -= 1u;
  }
  /* What is behind moves up by one. */
  void erase(std::size_t at) {
    T *gone = first_.get() + at;
    std::size_t behind = size_ - at - 1;
    p3l_dirty(gone, (behind + 1) * sizeof(T));
    detail::clear_element(*gone);
    std::memmove(static_cast<void *>(gone), gone + 1, behind * sizeof(T));
    std::memset(static_cast<void *>(gone + behind), 0, sizeof(T));
    size_ -= 1u;
  }
  void resize(std::size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    while (size_ < count) emplace_back();
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

}  // namespace p3l

#include "p3l_unordered_map.hpp" /* its hashes, map has, too */
#include "p3l_deque.hpp"
#include "p3l_map.hpp"
#include "p3l_members.hpp"

#endif
