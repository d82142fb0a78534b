/*
 * p3l::vector: elements side by side. Rules in p3l_containers.hpp.
 */
#ifndef P3L_VECTOR_HPP
#define P3L_VECTOR_HPP

#include "p3l_elements.hpp"

namespace p3l {

template <class T>
class vector : public detail::sequence<vector<T>, T> {
 public:
  using const_iterator = const T *;
  using iterator = const_iterator;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

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

template <class T>
struct class_of<vector<T>> : detail::registered_class<class_of<vector<T>>> {
  static const p3l_type *make() {
    return detail::describe<vector<T>>("p3l.vector<" + detail::name_of<T>() + ">",
                                       detail::version_of<T>());
  }
};

}  // namespace p3l

#endif
