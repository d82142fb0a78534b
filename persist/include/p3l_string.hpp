/*
 * p3l::string. Rules in p3l_containers.hpp.
 */
#ifndef P3L_STRING_HPP
#define P3L_STRING_HPP

#include <string_view>

#include "p3l_elements.hpp"

namespace p3l {

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

template <>
struct class_of<string> {
  static const p3l_type *type() { return detail::describe<string>("p3l.string", 1); }
  static inline const p3l_type *const registered = detail::describe<string>("p3l.string", 1);
};

}  // namespace p3l

#endif
