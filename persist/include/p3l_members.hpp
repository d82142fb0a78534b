/*
 * p3l::optional and p3l::unique_ptr. Rules in p3l_containers.hpp.
 */
#ifndef P3L_MEMBERS_HPP
#define P3L_MEMBERS_HPP

#include <optional>

#include "p3l_elements.hpp"

namespace p3l {

/*
 * A T, or none. The T is always there, empty: where its pointers are is found by making one. So T has a
 * default constructor, and std::optional, whose T is not always there, cannot persist.
 */
template <class T>
class optional {
  static_assert(unions_of<T>::count == 0,
                "a class with a union is not described within an optional: keep it by "
                "p3l::unique_ptr or p3l::pptr");

 public:
  using value_type = T;

  optional() = default;
  optional(const optional &) = default;
  optional &operator=(const optional &) = delete; /* assign the value, or reset() */

  bool has_value() const noexcept { return there_; }
  explicit operator bool() const noexcept { return there_; }
  const T &operator*() const { return value_; }
  const T *operator->() const { return &value_; }
  const T &value() const {
    if (!there_) throw std::bad_optional_access();
    return value_;
  }
  template <class U>
  T value_or(U &&other) const {
    return there_ ? value_ : static_cast<T>(std::forward<U>(other));
  }

  /* The value, about to change. */
  T &edit() {
    if (!there_) throw std::bad_optional_access();
    return p3l::edit(value_);
  }
  template <class... A>
  T &emplace(A &&...arguments) {
    reset();
    detail::make_element(&value_, std::forward<A>(arguments)...);
    there_ = true;
    return value_;
  }
  optional &operator=(const T &value) {
    if (!there_) {
      emplace();
    }
    p3l::edit(value_) = value;
    return *this;
  }
  optional &operator=(std::nullopt_t) {
    reset();
    return *this;
  }
  void reset() {
    if (!there_) return;
    detail::drop_element(&value_);
    there_ = false;
  }
  void clear() { reset(); }

 private:
  T value_{};
  field<bool> there_;
};

/*
 * The only owning pointer to an object: reset(), and the clear() of what it is a member or an
 * element of, erases that object. It has the size and layout of a pptr<T>.
 */
template <class T>
class unique_ptr {
 public:
  using element_type = T;
  using pointer = T *;

  unique_ptr() = default;
  unique_ptr(const unique_ptr &) = delete;
  unique_ptr &operator=(const unique_ptr &) = delete;
  unique_ptr &operator=(unique_ptr &&other) {
    if (this != &other) reset(other.release());
    return *this;
  }
  unique_ptr &operator=(std::nullptr_t) {
    reset();
    return *this;
  }

  T *get() const { return owned_.get(); }
  T *operator->() const { return owned_.get(); }
  T &operator*() const { return *owned_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(owned_); }
  friend bool operator==(const unique_ptr &p, std::nullptr_t) noexcept { return !p.owned_; }
  friend bool operator!=(const unique_ptr &p, std::nullptr_t) noexcept { return !!p.owned_; }

  /* A new object beside this pointer, in place of the one that it owned. */
  template <class... A>
  T *emplace(A &&...arguments) {
    p3l_store *store = detail::store_around(this);
    void *room = p3l_allocate(store, class_of<T>::type(), 1, this);
    if (__builtin_expect(!room, 0)) throw error(*p3l_failure(store));
    T *made = detail::construct<T>(room, std::forward<A>(arguments)...);
    reset(made);
    return made;
  }
  void reset(T *other = nullptr) {
    T *gone = owned_.get();
    if (gone == other) return;
    owned_ = other;
    if (!gone) return;
    detail::clear_element(*gone);
    p3l_delete(detail::store_around(this), gone);
  }
  /* It is owned no longer. */
  T *release() {
    T *released = owned_.get();
    owned_ = nullptr;
    return released;
  }
  void clear() { reset(); }

 private:
  pptr<T> owned_;
};

template <class T>
struct class_of<optional<T>> : detail::registered_class<class_of<optional<T>>> {
  static const p3l_type *make() {
    return detail::describe<optional<T>>("p3l.optional<" + detail::name_of<T>() + ">",
                                         detail::version_of<T>());
  }
};

}  // namespace p3l

#endif
