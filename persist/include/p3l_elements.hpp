/*
 * What containers in a store have in common: the types of elements, their memory, their names. Private
 * to p3l_containers.hpp.
 */
#ifndef P3L_ELEMENTS_HPP
#define P3L_ELEMENTS_HPP

#include <cstring>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>

#include "p3l.hpp"

namespace p3l {

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

/* Slots and numbers have a type for each size; classes have the type of P3L_CLASS. */
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

/* ---- interfaces ---- */

/* The base of a container: no copies, which would share its elements; copy these one by one. `Self`
 * makes it another class for each container: one whose first member is a container stays as large. */
template <class Self>
class not_copied {
 public:
  not_copied() = default;
  not_copied(const not_copied &) = delete;
  not_copied &operator=(const not_copied &) = delete;
};

/* The base of a container whose elements have numbers. */
template <class Self, class T>
class sequence : not_copied<Self> {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using const_reference = const T &;

  const T &front() const { return self()[0]; }
  const T &back() const { return self()[self().size() - 1]; }

 private:
  const Self &self() const { return static_cast<const Self &>(*this); }
};

/* The base of an iterator over elements that it does not change: its types, and what follows from its
 * own ++, -- and ==. */
template <class Self, class Category, class T>
class steps {
 public:
  using iterator_category = Category;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = const T *;
  using reference = const T &;

  friend Self operator++(Self &at, int) {
    Self before = at;
    ++at;
    return before;
  }
  friend Self operator--(Self &at, int) {
    Self before = at;
    --at;
    return before;
  }
  friend bool operator!=(const Self &a, const Self &b) { return !(a == b); }
};

/* ---- unions of members ---- */

template <class C, auto member>
using member_class = std::decay_t<decltype(std::declval<C &>().*member)>;

/* The function of union `n` of a member, as one of C. */
template <class C, auto member, std::size_t n>
std::uint32_t live_in_member(const void *object, std::size_t element) {
  const C &whole = static_cast<const C *>(object)[element];
  return unions_of<member_class<C, member>>::all()[n].live(&(whole.*member), 0);
}

template <class C, auto member, std::size_t... n>
void add_unions(std::vector<p3l_union> &all, std::index_sequence<n...>) {
  alignas(16) static unsigned char room[sizeof(C)];
  auto *inside = reinterpret_cast<unsigned char *>(&(reinterpret_cast<C *>(room)->*member));
  const p3l_union *own = unions_of<member_class<C, member>>::all();
  for (p3l_arm live : std::initializer_list<p3l_arm>{live_in_member<C, member, n>...}) {
    all.push_back(*own++);
    all.back().offset += static_cast<std::uint32_t>(inside - room);
    all.back().live = live;
  }
}

/* The unions of these members of C, in the order of the members. */
template <class C, auto... members>
const p3l_union *unions_of_members() {
  if constexpr (unions_of<C>::count == 0) {
    return nullptr;
  } else {
    static const auto *made = [] {
      auto *all = new std::vector<p3l_union>;
      (add_unions<C, members>(
           *all, std::make_index_sequence<unions_of<member_class<C, members>>::count>()),
       ...);
      all->push_back({});
      return all;
    }();
    return made->data();
  }
}

/* The base of unions_of<C>, where C has a key of K and then a value of V. */
template <class C, class K, class V>
struct unions_of_entry {
  static constexpr std::size_t count = unions_of<K>::count + unions_of<V>::count;
  static const p3l_union *all() { return unions_of_members<C, &C::key, &C::value>(); }
};

/* ---- as classes of a store ---- */

/* One name for each instance, composed of its elements' names; open refuses it if an element's
 * version differs from the store's. */
template <class C>
const p3l_type *describe(const std::string &name, std::uint32_t version) {
  static const std::string *kept = new std::string(name);
  static const auto *made =
      new description<C>(kept->c_str(), version, nullptr, unions_of<C>::all());
  return &made->type;
}

/* The base of a container's class_of, `Self`, which has make(): registers an instance that a program
 * uses before main() begins, so that stores with it can be opened. */
template <class Self>
struct registered_class {
  static const p3l_type *type() { return registered != nullptr ? registered : Self::make(); }
  static inline const p3l_type *const registered = Self::make();
};

}  // namespace detail

}  // namespace p3l

#endif
