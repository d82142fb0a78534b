/*
 * P3L for C++17, any compiler: a pointer type that is followed as fast as a plain one.
 *
 *   struct part { std::uint32_t id; p3l::pptr<part> to[3]; };
 *   P3L_CLASS(part, part, 1);
 *
 *   p3l::store store("parts.p3l", p3l::create());
 *   store.transact([&] {
 *     part *first = store.make<part>();
 *     first->id = 1;
 *     store.set_root("first", first);
 *   });
 *   for (part *p = store.root<part>("first"); p; p = p->to[0]) ...
 *
 * Rules:
 *  1. A pptr<T> is a slot of p3l_access.h, eight bytes, the same as a C program's `T *`. Whatever
 *     leaves it is an address: reading one is a check (test, js) and, the first time, p3l_swizzle().
 *     In a loop take a plain pointer out of it once (`part *p = q->to[k];`) and use that.
 *  2. Copying a pptr into a local variable reads it: the copy holds an address and lives as long as
 *     one (p3l.h, "How long pointers live"). Assigning one slot of a store to another copies what it
 *     holds, and fetches nothing. A pointer carried into another store is found out at the commit.
 *  3. Assigning to a pptr or a field<T> tells the store by itself; other members are changed
 *     through edit(). Objects made in the transaction under way need neither.
 *  4. Failures are exceptions (p3l::error), those of the C interface's fault handler too: making the
 *     first store installs one that throws. Nothing that reads a pptr is noexcept, therefore.
 *
 * Which members are pptrs is found by making one object of the class when the program starts: there
 * is no list of fields to forget one in.
 */
#ifndef P3L_HPP
#define P3L_HPP

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "p3l.h"

namespace p3l {

/* ---- errors ---- */

class error : public std::runtime_error {
 public:
  explicit error(const p3l_error &cause) : std::runtime_error(cause.message), code_(cause.code) {}
  p3l_code code() const noexcept { return code_; }

 private:
  p3l_code code_;
};

namespace detail {

inline void check(p3l_code code, const p3l_error &cause) {
  if (__builtin_expect(code != P3L_OK, 0)) throw error(cause);
}

/* p3l_dirty() of one T: a number that is aligned never lies across two cards. */
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
 * The object under construction whose pptrs are being looked for: each constructor of pptr asks
 * whether it runs within. `bytes` is 0 at all other times, so that the answer is no.
 */
struct probe {
  std::atomic<std::uintptr_t> base{0}, bytes{0};
  std::mutex one_at_a_time;
  std::vector<std::uint32_t> offsets; /* of slots, in the order of construction */
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
 * A pointer within a persistent object. T may be const, void or incomplete. Everything that a plain
 * pointer can do it does by becoming one; what needs no object (tests for null, assignment of null)
 * fetches none.
 */
template <class T>
class pptr {
 public:
  using element_type = T;

  constexpr pptr() noexcept : slot_(nullptr) { noticed(); }
  constexpr pptr(std::nullptr_t) noexcept : slot_(nullptr) { noticed(); }
  pptr(T *pointer) noexcept : slot_(pointer) { noticed(); }
  pptr(const pptr &other) : slot_(other.get()) {}
  /* To const, to void, to a base: whatever T * can be made from U *, wherever the base lies. */
  template <class U, class = std::enable_if_t<std::is_convertible<U *, T *>::value>>
  pptr(const pptr<U> &other) : slot_(other.get()) {}

  pptr &operator=(T *pointer) {
    detail::dirty_whole(&slot_);
    __atomic_store_n(&slot_, pointer, __ATOMIC_RELAXED);
    return *this;
  }
  pptr &operator=(std::nullptr_t) { return *this = static_cast<T *>(nullptr); }
  /* From slot to slot of one store a surrogate is copied as it is: what it leads to need not come. */
  pptr &operator=(const pptr &other) {
    T *pointer = __atomic_load_n(&other.slot_, P3L_LOAD_ORDER);
    if (__builtin_expect(p3l_is_surrogate(pointer), 0) && !other.in_store_of(&slot_))
      pointer = other.get();
    return *this = pointer;
  }
  template <class U, class = std::enable_if_t<std::is_convertible<U *, T *>::value>>
  pptr &operator=(const pptr<U> &other) {
    return *this = static_cast<T *>(other.get());
  }

  T *get() const {
    T *pointer = __atomic_load_n(&slot_, P3L_LOAD_ORDER);
    if (__builtin_expect(p3l_is_surrogate(pointer), 0))
      pointer = static_cast<T *>(
          p3l_swizzle(const_cast<void *>(static_cast<const void *>(&slot_)), pointer));
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

  T *slot_; /* or a surrogate: never to be used but by get() */
};
static_assert(sizeof(pptr<int>) == 8 && std::is_standard_layout<pptr<int>>::value, "a slot");

/* For structures that C programs use, too, whose slots are plain pointers: P3L_LD and P3L_SET. */
template <class T>
T *load(T *const &slot) {
  T *pointer = __atomic_load_n(&slot, P3L_LOAD_ORDER);
  if (__builtin_expect(p3l_is_surrogate(pointer), 0))
    pointer = static_cast<T *>(
        p3l_swizzle(const_cast<void *>(static_cast<const void *>(&slot)), pointer));
  return pointer;
}
template <class T, class V>
void set(T &place, V &&value) {
  p3l_dirty(std::addressof(place), sizeof place);
  place = std::forward<V>(value);
}

/*
 * An object named by its surrogate, to be kept in other memory than a store's: it outlives eviction.
 * Following it costs a look-up each time. p3l_use() where several stores are open.
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
  /* The same in every run; to print, to hash. */
  std::uint64_t number() const noexcept { return reinterpret_cast<std::uint64_t>(surrogate_); }

 private:
  T *surrogate_;
};

/* ---- changes ---- */

/* Tells the store that an object is about to change; returns it: edit(part)->x = 7. Once for many
 * members: auto &p = edit(*part); */
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

/* A member that tells by itself when it is assigned to. As large as a T, and lies where a T would. */
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

/* ---- classes ---- */

/* What P3L_CLASS made known of T. If the compiler complains here of an incomplete type, T has none. */
template <class T>
struct class_of;

namespace detail {

/* A p3l_type with all that it points to; never destroyed, as the library keeps the address. */
template <class T>
class description {
  static_assert(!std::is_polymorphic<T>::value,
                "a class with virtual functions cannot be persistent: its objects hold the address "
                "of a table of this run of the program (docs/persist.md, Virtual functions)");
  static_assert(std::is_trivially_destructible<T>::value,
                "a persistent class has no destructor to run and no members with one: they outlive "
                "the program (in place of std::string: an array; of std::unique_ptr: p3l::pptr)");
  static_assert(std::is_default_constructible<T>::value,
                "a persistent class needs a default constructor: where its pointers are is found "
                "by making one object");
  static_assert(alignof(T) <= 16, "objects in a store begin at multiples of 16");
  static_assert(sizeof(T) < UINT32_MAX, "a type has less than 4 GB");

 public:
  p3l_type type;

  description(const char *name, std::uint32_t version, p3l_upgrade upgrade) {
    std::vector<std::uint32_t> slots = slots_of_one();
    for (std::size_t i = 0, n; i < slots.size(); i += n) {
      for (n = 1; i + n < slots.size() && slots[i + n] == slots[i] + 8 * n;) n++;
      names_.push_back("pptr at byte " + std::to_string(slots[i]));
      fields_.push_back({nullptr, slots[i], static_cast<std::uint32_t>(n)});
    }
    for (std::size_t i = 0; i < fields_.size(); i++) fields_[i].name = names_[i].c_str();
    fields_.push_back({nullptr, 0, 0});
    type = {name, version, sizeof(T), fields_.data(), upgrade};
    p3l_register_type(&type);
  }

 private:
  std::vector<std::string> names_;
  std::vector<p3l_field> fields_;

  static std::vector<std::uint32_t> slots_of_one() {
    struct alignas(16) room {
      unsigned char bytes[sizeof(T)];
    };
    auto one = std::make_unique<room>();
    std::lock_guard<std::mutex> lock(the_probe.one_at_a_time);
    the_probe.offsets.clear();
    the_probe.base = reinterpret_cast<std::uintptr_t>(one.get());
    the_probe.bytes = sizeof(T);
    try {
      ::new (static_cast<void *>(one.get())) T();
    } catch (...) {
      the_probe.bytes = 0;
      throw;
    }
    the_probe.bytes = 0;
    std::vector<std::uint32_t> slots = std::move(the_probe.offsets);
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    return slots;
  }
};

}  // namespace detail

/*
 * For P3L_CLASS_UPGRADED, from one earlier version: Convert(const Old &, New &) fills in what is
 * zeroed. In it slots are copied as they are, pptr to pptr; nothing can be followed.
 *
 *   P3L_CLASS_UPGRADED(part, part, 2, (p3l::upgrade<1, part_1, part, convert>));
 */
template <std::uint32_t version, class Old, class New, void (*Convert)(const Old &, New &)>
bool upgrade(const void *old_object, std::size_t old_bytes, std::uint32_t old_version,
             void *new_object, std::size_t new_bytes) {
  if (old_version != version || old_bytes < sizeof(Old) || new_bytes < sizeof(New)) return false;
  try {
    Convert(*static_cast<const Old *>(old_object), *static_cast<New *>(new_object));
    return true;
  } catch (...) {
    return false;
  }
}

/*
 * Makes the class T known under the name `identifier`, the same in every program and language. At
 * global scope, once in a program or in a header. Layouts of other versions are refused, or
 * upgraded: see p3l_upgrade.
 */
#define P3L_CLASS(identifier, T, version) P3L_CLASS_UPGRADED(identifier, T, version, nullptr)
#define P3L_CLASS_UPGRADED(identifier, T, version, upgrade)                                     \
  template <>                                                                                   \
  struct p3l::class_of<T> {                                                                     \
    static const p3l_type *type() {                                                             \
      static const auto *made = new p3l::detail::description<T>(#identifier, version, upgrade); \
      return &made->type;                                                                       \
    }                                                                                           \
    static inline const p3l_type *const registered = type();                                    \
  }

namespace detail {

template <class T, class = void>
struct is_known : std::false_type {};
template <class T>
struct is_known<T, std::void_t<decltype(sizeof(class_of<std::remove_cv_t<T>>))>> : std::true_type {
};

inline void check_type(const char *root, const void *object, const p3l_type *expected) {
  const p3l_type *type = p3l_type_of(object);
  if (type && std::strcmp(type->name, expected->name) == 0) return;
  p3l_error cause;
  p3l_fail(&cause, P3L_WRONG_TYPE, "root %s is of type %s, and not %s: ask for what it is", root,
           type ? type->name : "that this program has none for", expected->name);
  throw error(cause);
}

}  // namespace detail

/* ---- stores ---- */

/* Options for store(): the file is made if there is none; it is only read. */
inline p3l_options create() {
  p3l_options options = {};
  options.create = true;
  return options;
}
inline p3l_options read_only() {
  p3l_options options = {};
  options.read_only = true;
  return options;
}
/* The same with a limit of memory. */
inline p3l_options within(std::uint64_t memory_bytes, p3l_options options = {}) {
  options.memory_bytes = memory_bytes;
  return options;
}

class store {
 public:
  explicit store(const std::string &path, const p3l_options &options = {}) {
    static const bool throws = (p3l_on_fault(throw_fault, nullptr), true);
    (void)throws;
    p3l_error cause;
    detail::check(p3l_open(path.c_str(), &options, &store_, &cause), cause);
  }
  store(store &&other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
  store &operator=(store &&other) noexcept {
    std::swap(store_, other.store_);
    return *this;
  }
  /* What was committed is in the log even if closing fails; to hear of it, close(). */
  ~store() {
    if (store_) p3l_close(store_, nullptr);
  }
  void close() {
    p3l_error cause;
    if (store_) detail::check(p3l_close(std::exchange(store_, nullptr), &cause), cause);
  }

  /* The C interface's name of it. */
  p3l_store *get() const noexcept { return store_; }

  /* Runs `body` in a transaction: commits at its end, aborts if it throws. */
  template <class F>
  auto transact(F &&body);

  /* New objects, within a transaction. */
  template <class T, class... A>
  T *make(A &&...arguments) {
    return make_near<T>(nullptr, std::forward<A>(arguments)...);
  }
  /* On the page of `near`, if there is room. */
  template <class T, class... A>
  T *make_near(const void *near, A &&...arguments) {
    void *room = allocate<T>(1, near);
    try {
      if constexpr (std::is_constructible<T, A...>::value)
        return ::new (room) T(std::forward<A>(arguments)...);
      else
        return ::new (room) T{std::forward<A>(arguments)...};
    } catch (...) {
      p3l_delete(store_, room);
      throw;
    }
  }
  /* An array: one object, whose elements are default constructed. */
  template <class T>
  T *make_array(std::size_t count, const void *near = nullptr) {
    T *first = static_cast<T *>(allocate<T>(count, near));
    if constexpr (!std::is_trivially_default_constructible<T>::value) /* else it is zero already */
      for (std::size_t i = 0; i < count; i++) ::new (static_cast<void *>(first + i)) T();
    return first;
  }
  /* Of an object or an array; pointers to it dangle. */
  void erase(void *object) { p3l_delete(store_, object); }

  /* The object of that name, nullptr if there is none. P3L_WRONG_TYPE if T is a class that P3L_CLASS
   * made known, and the object is of another; T may be a base of the object's class, or void. */
  template <class T>
  T *root(const char *name) {
    void *object = p3l_root(store_, name);
    if constexpr (detail::is_known<T>::value)
      if (object) detail::check_type(name, object, class_of<std::remove_cv_t<T>>::type());
    return static_cast<T *>(object);
  }
  void set_root(const char *name, void *object) {
    p3l_code code = p3l_set_root(store_, name, object);
    if (code != P3L_OK) throw error(*p3l_failure(store_));
  }

  std::size_t prefetch(const void *object, unsigned depth) {
    return p3l_prefetch(store_, object, depth);
  }
  void evict(std::uint64_t bytes) {
    p3l_error cause;
    detail::check(p3l_evict(store_, bytes, &cause), cause);
  }
  p3l_statistics statistics() const {
    p3l_statistics statistics;
    p3l_get_statistics(store_, &statistics);
    return statistics;
  }

 private:
  p3l_store *store_ = nullptr;

  [[noreturn]] static void throw_fault(void *, const p3l_error *cause) { throw error(*cause); }

  template <class T>
  void *allocate(std::size_t count, const void *near) {
    void *room = p3l_allocate(store_, class_of<T>::type(), count, near);
    if (__builtin_expect(!room, 0)) throw error(*p3l_failure(store_));
    return room;
  }
};

/* ---- what holds from here to the end of the block ---- */

/* Aborted where it is left without commit(): by an exception, by a return. */
class transaction {
 public:
  explicit transaction(store &store) : store_(store.get()) {
    p3l_error cause;
    detail::check(p3l_begin(store_, &cause), cause);
  }
  transaction(const transaction &) = delete;
  transaction &operator=(const transaction &) = delete;
  ~transaction() { abort(); }
  void commit() {
    p3l_error cause;
    if (store_) detail::check(p3l_commit(std::exchange(store_, nullptr), &cause), cause);
  }
  void abort() {
    if (store_) p3l_abort(std::exchange(store_, nullptr));
  }

 private:
  p3l_store *store_; /* nullptr: it is over */
};

template <class F>
auto store::transact(F &&body) {
  transaction changes(*this);
  if constexpr (std::is_void<decltype(body())>::value) {
    body();
    changes.commit();
  } else {
    auto result = body();
    changes.commit();
    return result;
  }
}

/* A reader, where several threads use the store. */
class scope {
 public:
  explicit scope(store &store) : store_(store.get()) { p3l_enter(store_); }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
  ~scope() { p3l_leave(store_); }

 private:
  p3l_store *store_;
};

/* An object that stays where it is, and a pointer to it that may be kept anywhere. */
template <class T>
class pin {
 public:
  pin() noexcept : object_(nullptr) {}
  explicit pin(T *object) : object_(object) { hold(); }
  pin(const pin &other) : object_(other.object_) { hold(); }
  pin(pin &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  pin &operator=(pin other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~pin() {
    if (object_) p3l_unpin(object_);
  }
  T *get() const noexcept { return object_; }
  T *operator->() const noexcept { return object_; }
  T &operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T *object_;

  void hold() const {
    if (object_) p3l_pin(object_);
  }
};

}  // namespace p3l

/* By surrogate, so that an object's hash is the same in every run, and after an eviction. */
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
