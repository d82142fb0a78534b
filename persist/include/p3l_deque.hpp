/*
 * p3l::deque: a ring of elements in one array. Rules in p3l_containers.hpp.
 */
#ifndef P3L_DEQUE_HPP
#define P3L_DEQUE_HPP

#include "p3l_elements.hpp"

namespace p3l {

/* References to elements end when it grows, and iterators when elements come or go at the front. */
template <class T>
class deque : public detail::sequence<deque<T>, T> {
 public:
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const T &operator[](std::size_t at) const { return *place(at); }
  const T &at(std::size_t at) const {
    if (at >= size_) throw std::out_of_range("p3l::deque::at()");
    return *place(at);
  }

  /* An element that is about to change. */
  T &edit(std::size_t at) { return p3l::edit(*place(at)); }

  template <class... A>
  T &emplace_back(A &&...arguments) {
    if (size_ == capacity_) grow();
    T *made = detail::make_element(place(size_), std::forward<A>(arguments)...);
    size_ += 1u;
    return *made;
  }
  template <class... A>
  T &emplace_front(A &&...arguments) {
    if (size_ == capacity_) grow();
    std::uint64_t before = (start_ - 1u) & (capacity_ - 1u);
    T *made = detail::make_element(first_.get() + before, std::forward<A>(arguments)...);
    start_ = before;
    size_ += 1u;
    return *made;
  }
  void push_back(const T &value) { emplace_back(value); }
  void push_front(const T &value) { emplace_front(value); }
  void pop_back() {
    detail::drop_element(place(size_ - 1));
    size_ -= 1u;
  }
  void pop_front() {
    detail::drop_element(place(0));
    start_ = (start_ + 1u) & (capacity_ - 1u);
    size_ -= 1u;
  }
  void clear() {
    while (!empty()) pop_back();
    if (capacity_ == 0) return;
    p3l_delete(detail::store_around(this), first_.get());
    first_ = nullptr;
    capacity_ = 0;
    start_ = 0;
  }

  class const_iterator : public detail::steps<const_iterator, std::random_access_iterator_tag, T> {
   public:
    const_iterator() = default;
    const T &operator*() const { return (*of_)[at_]; }
    const T *operator->() const { return &(*of_)[at_]; }
    const T &operator[](std::ptrdiff_t n) const { return *(*this + n); }
    const_iterator &operator+=(std::ptrdiff_t n) {
      at_ += static_cast<std::size_t>(n);
      return *this;
    }
    const_iterator &operator-=(std::ptrdiff_t n) { return *this += -n; }
    const_iterator &operator++() { return *this += 1; }
    const_iterator &operator--() { return *this -= 1; }
    friend const_iterator operator+(const_iterator i, std::ptrdiff_t n) { return i += n; }
    friend const_iterator operator+(std::ptrdiff_t n, const_iterator i) { return i += n; }
    friend const_iterator operator-(const_iterator i, std::ptrdiff_t n) { return i -= n; }
    friend std::ptrdiff_t operator-(const const_iterator &a, const const_iterator &b) {
      return static_cast<std::ptrdiff_t>(a.at_) - static_cast<std::ptrdiff_t>(b.at_);
    }
    friend bool operator==(const const_iterator &a, const const_iterator &b) {
      return a.at_ == b.at_;
    }
    friend bool operator<(const const_iterator &a, const const_iterator &b) {
      return a.at_ < b.at_;
    }
    friend bool operator>(const const_iterator &a, const const_iterator &b) { return b < a; }
    friend bool operator<=(const const_iterator &a, const const_iterator &b) { return !(b < a); }
    friend bool operator>=(const const_iterator &a, const const_iterator &b) { return !(a < b); }

   private:
    friend class deque;
    const deque *of_ = nullptr;
    std::size_t at_ = 0;
    const_iterator(const deque *of, std::size_t at) : of_(of), at_(at) {}
  };
  using iterator = const_iterator;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size_}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }

 private:
  pptr<T> first_;
  field<std::uint64_t> start_, size_, capacity_; /* a power of two, or 0 */

  T *place(std::size_t at) const { return first_.get() + ((start_ + at) & (capacity_ - 1u)); }

  void grow() {
    std::size_t before = capacity_, count = before == 0 ? 4 : 2 * before;
    p3l_store *store = detail::store_around(this);
    T *old = first_.get(), *fresh = detail::room_for<T>(store, count, this);
    std::size_t behind = before - start_; /* from the first element to the array's end */
    if (before > 0) {
      std::memcpy(static_cast<void *>(fresh), old + start_, behind * sizeof(T));
      std::memcpy(static_cast<void *>(fresh + behind), old, start_ * sizeof(T));
    }
    first_ = fresh;
    start_ = 0;
    capacity_ = count;
    if (old) p3l_delete(store, old);
  }
};

template <class T>
struct class_of<deque<T>> : detail::registered_class<class_of<deque<T>>> {
  static const p3l_type *make() {
    return detail::describe<deque<T>>("p3l.deque<" + detail::name_of<T>() + ">",
                                      detail::version_of<T>());
  }
};

}  // namespace p3l

#endif
