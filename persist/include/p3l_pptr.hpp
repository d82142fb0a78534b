/*
 * The C++ interface: members of persistent objects, pptr<T> and field<T>, and reporting changes
 * of other members. Rules in p3l.hpp, which includes this.
 */
#ifndef P3L_PPTR_HPP
#define P3L_PPTR_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "p3l.h"

namespace p3l {

namespace detail {

/* p3l_dirty() of one T: an aligned number never spans two cards. */
template <class T>
inline void dirty_whole(T *place) {
  if constexpr (alignof(T) == sizeof(T) && sizeof(T) <= P3L_CARD_BYTES) {
    std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(place) - p3l_persistent_memory.base;
    if (offset < p3l_persistent_memory.bytes &&
        __builtin_expect(p3l_persistent_memory.cards[offset >> P3L_CARD_SHIFT] == 0, 0))
      p3l_will_write(place, sizeof(T));
  } else {
    p3l_dirty(place, sizeof(T));
  }
}

/*
 * The object under construction whose pptrs are being collected. Each constructor of pptr checks if
 * it runs within this object. `bytes` is 0 at all other times, and `base` an address that no memory
 * has: another thread may see one of them change before the other.
 */
struct probe {
  static constexpr std::uintptr_t nowhere = std::uintptr_t{1} << 63;
  std::atomic<std::uintptr_t> base{nowhere}, bytes{0};
  std::mutex one_at_a_time;
  std::vector<std::uint32_t> offsets; /* offsets of slots, in the order of construction */
};
inline probe the_probe;

inline void notice(const void *slot) {
  std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(slot) - the_probe.base.load(std::memory_order_relaxed);
  if (__builtin_expect(offset < the_probe.bytes.load(std::memory_order_relaxed), 0))
    the_probe.offsets.push_back(static_cast<std::uint32_t>(offset));
}

}  // namespace detail

/* ---- pointers ---- */

/*
 * A pointer within a persistent object. T may be const, void or incomplete. It converts to a
 * plain pointer for all operations; those that need no object (tests for null, assignment of
 * null) fetch none.
 */
template <class T>
class pptr {
 public:
  using element_type = T;

  constexpr pptr() noexcept : slot_(nullptr) { noticed(); }
  constexpr pptr(std::nullptr_t) noexcept : slot_(nullptr) { noticed(); }
  pptr(T *pointer) noexcept : slot_(pointer) { noticed(); }
  pptr(const pptr &other) : slot_(other.get()) {}
  /* Converts to const, to void, or to a base class: every conversion from U * to T *, including
   * those that change the address. */
  template <class U, class = std::enable_if_t<std::is_convertible<U *, T *>::value>>
  pptr(const pptr<U> &other) : slot_(other.get()) {}

  pptr &operator=(T *pointer) {
    detail::dirty_whole(&slot_);
    __atomic_store_n(&slot_, pointer, __ATOMIC_RELAXED);
    return *this;
  }
  pptr &operator=(std::nullptr_t) { return *this = static_cast<T *>(nullptr); }
  /* Between slots of one store a surrogate is copied unchanged: its target need not be fetched. */
  pptr &operator=(const pptr &other) {
    T *pointer = P3L_SLOT_VALUE(&other.slot_);
    if (__builtin_expect(p3l_is_surrogate(pointer), 0) && !other.in_store_of(&slot_))
      pointer = other.get();
    return *this = pointer;
  }
  template <class U, class = std::enable_if_t<std::is_convertible<U *, T *>::value>>
  pptr &operator=(const pptr<U> &other) {
    return *this = static_cast<T *>(other.get());
  }

  T *get() const {
    T *pointer = P3L_SLOT_VALUE(&slot_);
    if (__builtin_expect(p3l_is_surrogate(pointer), 0))
      pointer = static_cast<T *>(
          P3L_SWIZZLE(const_cast<void *>(static_cast<const void *>(&slot_)), pointer));
    return pointer;
  }
  operator T *() const { return get(); }
  T *operator->() const { return get(); }

  explicit operator bool() const noexcept {
    return __atomic_load_n(&slot_, __ATOMIC_RELAXED) != nullptr;
  }
  bool operator!() const noexcept { return !static_cast<bool>(*this); }
  friend bool operator==(const pptr &p, std::nullptr_t) noexcept { return !p; }
  friend bool operator==(std::nullptr_t, const pptr &p) noexcept { return !p; }
  friend bool operator!=(const pptr &p, std::nullptr_t) noexcept { return !!p; }
  friend bool operator!=(std::nullptr_t, const pptr &p) noexcept { return !!p; }

  pptr &operator+=(std::ptrdiff_t n) { return *this = get() + n; }
  pptr &operator-=(std::ptrdiff_t n) { return *this = get() - n; }
  pptr &operator++() { return *this += 1; }
  pptr &operator--() { return *this -= 1; }

 private:
  bool in_store_of(const void *slot) const {
    p3l_store *store = p3l_store_of(this);
    return store && store == p3l_store_of(slot);
  }
  constexpr void noticed() const noexcept {
    if (!__builtin_is_constant_evaluated()) detail::notice(this);
  }

  T *slot_; /* or a surrogate: only get() reads it */
};
static_assert(sizeof(pptr<int>) == 8 && std::is_standard_layout<pptr<int>>::value, "a slot");

/* P3L_LD and P3L_SET for structures shared with C programs, whose slots are plain pointers. */
template <class T>
T *load(T *const &slot) {
  T *pointer = P3L_SLOT_VALUE(&slot);
  if (__builtin_expect(p3l_is_surrogate(pointer), 0))
    pointer = static_cast<T *>(
        P3L_SWIZZLE(const_cast<void *>(static_cast<const void *>(&slot)), pointer));
  return pointer;
}
template <class T, class V>
void set(T &place, V &&value) {
  p3l_dirty(std::addressof(place), sizeof place);
  place = std::forward<V>(value);
}

/*
 * A reference to an object by its surrogate, for memory outside of stores. It stays valid across
 * evictions. Following it costs a lookup each time. Call p3l_use() if several stores are open.
 */
template <class T>
class kept {
 public:
  kept() noexcept : surrogate_(nullptr) {}
  explicit kept(T *object) : surrogate_(static_cast<T *>(p3l_surrogate(object))) {}
  T *get() const { return load(surrogate_); }
  T *operator->() const { return get(); }
  T &operator*() const { return *get(); }
  explicit operator bool() const noexcept { return surrogate_ != nullptr; }
  friend bool operator==(const kept &a, const kept &b) { return a.surrogate_ == b.surrogate_; }
  friend bool operator!=(const kept &a, const kept &b) { return a.surrogate_ != b.surrogate_; }
  /* The same number in every run; can be printed and hashed. */
  std::uint64_t number() const noexcept { return reinterpret_cast<std::uint64_t>(surrogate_); }

 private:
  T *surrogate_;
};

/* ---- changes ---- */

/* Reports that an object is about to change, and returns it: edit(part)->x = 7. For many members
 * call it once: auto &p = edit(*part); */
template <class T>
T *edit(T *object) {
  p3l_dirty(object, sizeof *object);
  return object;
}
template <class T>
T *edit(const pptr<T> &pointer) {
  return edit(pointer.get());
}
template <class T>
T &edit(T &object) {
  p3l_dirty(std::addressof(object), sizeof object);
  return object;
}
/* The same for `count` elements of an array from `first` on. */
template <class T>
T *edit(T *first, std::size_t count) {
  p3l_dirty(first, count * sizeof *first);
  return first;
}

/* A member that reports assignments automatically. It has the size and layout of a T. */
template <class T>
class field {
  static_assert(std::is_trivially_copyable<T>::value,
                "a field is a number, an enum, a small struct");

 public:
  constexpr field() noexcept : value_() {}
  constexpr field(const T &value) noexcept : value_(value) {}
  field(const field &) = default;
  field &operator=(const T &value) {
    detail::dirty_whole(&value_);
    value_ = value;
    return *this;
  }
  field &operator=(const field &other) { return *this = other.value_; }
  constexpr operator T() const noexcept { return value_; }
  constexpr T get() const noexcept { return value_; }

  template <class V>
  field &operator+=(const V &v) {
    return *this = static_cast<T>(value_ + v);
  }
  template <class V>
  field &operator-=(const V &v) {
    return *this = static_cast<T>(value_ - v);
  }
  template <class V>
  field &operator*=(const V &v) {
    return *this = static_cast<T>(value_ * v);
  }
  template <class V>
  field &operator/=(const V &v) {
    return *this = static_cast<T>(value_ / v);
  }
  template <class V>
  field &operator|=(const V &v) {
    return *this = static_cast<T>(value_ | v);
  }
  template <class V>
  field &operator&=(const V &v) {
    return *this = static_cast<T>(value_ & v);
  }
  template <class V>
  field &operator^=(const V &v) {
    return *this = static_cast<T>(value_ ^ v);
  }
  field &operator++() { return *this += 1; }
  field &operator--() { return *this -= 1; }
  T operator++(int) {
    T before = value_;
    ++*this;
    return before;
  }
  T operator--(int) {
    T before = value_;
    --*this;
    return before;
  }

 private:
  T value_;
};

}  // namespace p3l

/* Hashes the surrogate, so that an object's hash is the same in every run, and after an
 * eviction. */
template <class T>
struct std::hash<p3l::pptr<T>> {
  std::size_t operator()(const p3l::pptr<T> &pointer) const {
    return std::hash<const void *>()(pointer ? p3l_surrogate(pointer.get()) : nullptr);
  }
};
template <class T>
struct std::hash<p3l::kept<T>> {
  std::size_t operator()(const p3l::kept<T> &object) const {
    return std::hash<std::uint64_t>()(object.number());
  }
};

#endif
