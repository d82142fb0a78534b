/* The C++ interface: registration of classes. The rules are in p3l.hpp, which includes this
 * file. */
#ifndef P3L_CLASS_HPP
#define P3L_CLASS_HPP

#include <algorithm>
#include <new>
#include <string>

#include "p3l_pptr.hpp"

namespace p3l {

/* The description of T made by P3L_CLASS. A compiler error about an incomplete type here means
 * that T is not registered. */
template <class T>
struct class_of;

/* The unions of a class of P3L_CLASS_UNIONS, or of what has one as a member: `all` ends with one without
 * a name. */
template <class T>
struct unions_of {
  static constexpr std::size_t count = 0;
  static const p3l_union *all() { return nullptr; }
};

namespace detail {

/* A p3l_type with all parts that it points to. It is never destroyed, since the library keeps
 * its address. */
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

  description(const char *name, std::uint32_t version, p3l_upgrade upgrade,
              const p3l_union *unions = nullptr) {
    std::vector<std::uint32_t> slots = slots_of_one();
    for (const p3l_union *at = unions; at != nullptr && at->name != nullptr; at++)
      slots.erase(std::remove_if(slots.begin(), slots.end(),
                                 [at](std::uint32_t slot) {
                                   return slot >= at->offset && slot - at->offset < at->bytes;
                                 }),
                  slots.end());
    for (std::size_t i = 0, n; i < slots.size(); i += n) {
      for (n = 1; i + n < slots.size() && slots[i + n] == slots[i] + 8 * n;) n++;
      names_.push_back("pptr at byte " + std::to_string(slots[i]));
      fields_.push_back({nullptr, slots[i], static_cast<std::uint32_t>(n)});
    }
    for (std::size_t i = 0; i < fields_.size(); i++) fields_[i].name = names_[i].c_str();
    fields_.push_back({nullptr, 0, 0});
    type = {name, version, sizeof(T), fields_.data(), upgrade};
    p3l_register_unions(&type, unions);
  }

 private:
  std::vector<std::string> names_;
  std::vector<p3l_field> fields_;

  /* Before the room is freed: another thread may get its memory. */
  static void end_probe() {
    the_probe.base = probe::nowhere;
    the_probe.bytes = 0;
  }

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
      end_probe();
      throw;
    }
    end_probe();
    std::vector<std::uint32_t> slots = std::move(the_probe.offsets);
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    return slots;
  }
};

}  // namespace detail

/*
 * An upgrade from one earlier version, for P3L_CLASS_UPGRADED. Convert(const Old &, New &) fills in
 * a zeroed object. It copies slots unchanged, pptr to pptr, and cannot follow pointers.
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
 * Registers the class T under the name `identifier`, the same in every program and language. Use it
 * at global scope, once in a program or in a header. Layouts of other versions are refused, or
 * upgraded: see p3l_upgrade.
 */
#define P3L_CLASS(identifier, T, version) P3L_CLASS_UPGRADED(identifier, T, version, nullptr)
#define P3L_CLASS_UPGRADED(identifier, T, version, upgrade) \
  P3L_CLASS_DESCRIBED(identifier, T, version, upgrade, nullptr)
/*
 * The same for a class with unions that have a pptr as an arm: P3L_UNION (p3l.h) says where, and
 * which function says what is live. The union needs a constructor, which makes an arm live. A class
 * that has such a class as a member describes its unions, too: P3L_UNION(box, content.is, ...).
 *
 *   P3L_CLASS_UNIONS(value, value, 1, nullptr,
 *                    P3L_UNION(value, is, live, P3L_PLAIN_ARM, P3L_ARM(value, is, is.list)));
 */
#define P3L_CLASS_UNIONS(identifier, T, version, upgrade, ...)                           \
  static const p3l_union p3l_unions_of_##identifier[] = {__VA_ARGS__, {0, 0, 0, 0, {}}}; \
  template <>                                                                            \
  struct p3l::unions_of<T> {                                                             \
    static constexpr std::size_t count =                                                 \
        sizeof(p3l_unions_of_##identifier) / sizeof(p3l_union) - 1;                      \
    static const p3l_union *all() { return p3l_unions_of_##identifier; }                 \
  };                                                                                     \
  P3L_CLASS_DESCRIBED(identifier, T, version, upgrade, p3l_unions_of_##identifier)
#define P3L_CLASS_DESCRIBED(identifier, T, version, upgrade, unions)              \
  template <>                                                                     \
  struct p3l::class_of<T> {                                                       \
    static const p3l_type *type() {                                               \
      static const auto *made =                                                   \
          new p3l::detail::description<T>(#identifier, version, upgrade, unions); \
      return &made->type;                                                         \
    }                                                                             \
    static inline const p3l_type *const registered = type();                      \
  }

}  // namespace p3l

#endif
