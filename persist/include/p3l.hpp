/*
 * P3L for C++17, any compiler: a pointer type as fast as a plain one.
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
 *  1. A pptr<T> is a slot of p3l_access.h, eight bytes, the same as a C program's `T *`. Reading it
 *     gives an address. That costs a check (test, js) and, the first time, p3l_swizzle(). In a loop
 *     read a plain pointer from it once (`part *p = q->to[k];`) and use that.
 *  2. Copying a pptr into a local variable reads it: the copy holds an address and is valid as long
 *     as one (p3l.h, "How long pointers live"). Assigning one slot of a store to another copies its
 *     contents without fetching the object. The commit detects a pointer into another store.
 *  3. Assigning to a pptr or a field<T> reports the change automatically; other members are changed
 *     through edit(). Objects made in the current transaction need neither.
 *  4. Failures are exceptions (p3l::error). This includes those of the C interface's fault handler,
 *     because making the first store installs a handler that throws. Therefore no function that
 *     reads a pptr is noexcept.
 *
 * The pptr members of a class are found by constructing one object of it at program start: there is
 * no list of fields to maintain.
 */
#ifndef P3L_HPP
#define P3L_HPP

#include <cstring>
#include <stdexcept>

#include "p3l_class.hpp"
#include "p3l_pptr.hpp"

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

template <class T, class = void>
struct is_known : std::false_type {};
template <class T>
struct is_known<T, std::void_t<decltype(sizeof(class_of<std::remove_cv_t<T>>))>> : std::true_type {
};

inline void check_type(const char *root, const void *object, const p3l_type *expected) {
  const p3l_type *type = p3l_type_of(object);
  if (type && std::strcmp(type->name, expected->name) == 0) return;
  p3l_error cause;
  p3l_fail(&cause, P3L_WRONG_TYPE, "root %s is of type %s, and not %s: read it as its own type",
           root, type ? type->name : "that this program has none for", expected->name);
  throw error(cause);
}

/* Bytes [from, to) of a class: a member that prefetch follows. */
struct member {
  const p3l_type *type; /* nullptr ends a list */
  std::size_t from, to;
};

template <class T, class M>
member member_of(M T::*pointer) {
  alignas(T) static unsigned char room[sizeof(T)]; /* not a T: only addresses are computed */
  auto at =
      reinterpret_cast<unsigned char *>(std::addressof(reinterpret_cast<T *>(room)->*pointer));
  std::size_t from = static_cast<std::size_t>(at - room);
  return {class_of<T>::type(), from, from + sizeof(M)};
}

inline bool is_chosen(void *list, const p3l_type *type, const p3l_field *slot) {
  for (auto *at = static_cast<const member *>(list); at->type; at++)
    if (slot->offset >= at->from && slot->offset < at->to &&
        std::strcmp(type->name, at->type->name) == 0)
      return true;
  return false;
}

}  // namespace detail

/* ---- stores ---- */

/* Options for store(): create the file if it does not exist; read only. */
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
/* The same with a memory limit. */
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
  /* Committed changes are in the log even if closing fails. Call close() to get its errors. */
  ~store() {
    if (store_) p3l_close(store_, nullptr);
  }
  void close() {
    p3l_error cause;
    if (store_) detail::check(p3l_close(std::exchange(store_, nullptr), &cause), cause);
  }

  /* The store's handle in the C interface. */
  p3l_store *get() const noexcept { return store_; }

  /* Runs `body` in a transaction: commits at its end, aborts if it throws. */
  template <class F>
  auto transact(F &&body);

  /* Runs `body`, whose transactions commit without a log: use it to build much data, which is
   * durable at the end. After a crash in between, the store is as before. If `body` throws, its
   * commits remain. */
  template <class F>
  void load(F &&body) {
    p3l_error cause;
    detail::check(p3l_load_begin(store_, &cause), cause);
    try {
      body();
    } catch (...) {
      p3l_load_end(store_, nullptr);
      throw;
    }
    detail::check(p3l_load_end(store_, &cause), cause);
  }

  /* Makes a new object, within a transaction. */
  template <class T, class... A>
  T *make(A &&...arguments) {
    return make_near<T>(nullptr, std::forward<A>(arguments)...);
  }
  /* The same, on the page of `near` if there is space. */
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
  /* Makes an array: one object, whose elements are default constructed. */
  template <class T>
  T *make_array(std::size_t count, const void *near = nullptr) {
    void *room = p3l_allocate_array(store_, class_of<T>::type(), count, near);
    if (__builtin_expect(!room, 0)) throw error(*p3l_failure(store_));
    T *first = static_cast<T *>(room);
    if constexpr (!std::is_trivially_default_constructible<T>::value) /* else already zero */
      for (std::size_t i = 0; i < count; i++) ::new (static_cast<void *>(first + i)) T();
    return first;
  }
  /* Deletes an object or an array; pointers to it become invalid. */
  void erase(void *object) { p3l_delete(store_, object); }

  /* The object of that name, nullptr if there is no such name. P3L_WRONG_TYPE if T is registered
   * by P3L_CLASS and the object has another class; T may be a base of the object's class, or
   * void. */
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
  /* Follows only these members: prefetch(first, 7, &part::to, &connection::to). */
  template <class... T, class... M>
  std::size_t prefetch(const void *object, unsigned depth, M T::*...members) {
    const detail::member chosen[] = {detail::member_of(members)..., {nullptr, 0, 0}};
    return p3l_prefetch_by(store_, object, depth, detail::is_chosen,
                           const_cast<detail::member *>(chosen));
  }
  /* Advances to the version that another process committed last. Pointers held outside the store
   * dangle. */
  void refresh() {
    p3l_error cause;
    detail::check(p3l_refresh(store_, &cause), cause);
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

/* Aborts if it is left without commit(), by an exception or by a return. */
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
  p3l_store *store_; /* nullptr: it has ended */
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

/* A reader's scope, needed where several threads use the store. */
class scope {
 public:
  explicit scope(store &store) : store_(store.get()) { p3l_enter(store_); }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
  ~scope() { p3l_leave(store_); }

 private:
  p3l_store *store_;
};

/* A pinned object, and a pointer to it that may be kept anywhere. */
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

#endif
