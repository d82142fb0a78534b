/*
 * p3l::map: entries in the order of their keys. Rules in p3l_containers.hpp.
 *
 * A treap: a search tree by key that is a heap by priority, so that its depth is that of a random tree:
 * about 2 log2(n) on a search, whatever order the keys come in.
 *
 * Invariants:
 *  1. Keys of the left subtree are before the node's, those of the right behind it.
 *  2. No child has a higher priority than its parent. The priority is a hash of the number of the
 *     insertion: the same in every run, and of no order that a program would choose.
 *  3. `parent` of a node is the node that it is a child of; of the root null.
 */
#ifndef P3L_MAP_HPP
#define P3L_MAP_HPP

#include "p3l_unordered_map.hpp"

namespace p3l {

/* The order of keys: the same in every program and version, as the tree is stored. */
template <class K>
struct stored_order {
  static_assert(std::is_arithmetic<K>::value || std::is_enum<K>::value,
                "a key of p3l::map is a number, an enum or a p3l::string; give others a "
                "p3l::stored_order");
  using view = K;
  bool operator()(K a, K b) const { return a < b; }
};
template <>
struct stored_order<string> {
  using view = std::string_view;
  bool operator()(std::string_view a, std::string_view b) const { return a < b; }
};

template <class K, class V>
struct map_node {
  pptr<map_node> left, right, parent;
  std::uint64_t priority = 0;
  K key{};
  V value{};
};

template <class K, class V>
class map : detail::not_copied<map<K, V>> {
 public:
  using node = map_node<K, V>;
  using key_view = typename stored_order<K>::view;
  using key_type = K;
  using mapped_type = V;
  using value_type = node;
  using size_type = std::size_t;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  /* Over nodes, `key` and `value`, in the order of keys. */
  class const_iterator
      : public detail::steps<const_iterator, std::bidirectional_iterator_tag, node> {
   public:
    const_iterator() = default;
    const node &operator*() const { return *at_; }
    const node *operator->() const { return at_; }
    const_iterator &operator++() {
      at_ = next(at_);
      return *this;
    }
    const_iterator &operator--() {
      at_ = at_ ? previous(at_) : last(of_->root_);
      return *this;
    }
    friend bool operator==(const const_iterator &a, const const_iterator &b) {
      return a.at_ == b.at_;
    }

   private:
    friend class map;
    const map *of_ = nullptr;
    const node *at_ = nullptr; /* nullptr: behind the last */
    const_iterator(const map *of, const node *at) : of_(of), at_(at) {}
  };
  using iterator = const_iterator;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;
  const_iterator begin() const { return {this, first(root_)}; }
  const_iterator end() const { return {this, nullptr}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }

  /* nullptr: not found. */
  const V *find(key_view key) const {
    const node *found = search(key);
    return found ? &found->value : nullptr;
  }
  bool contains(key_view key) const { return search(key) != nullptr; }
  /* The first entry whose key is not before `key`; behind it. */
  const_iterator lower_bound(key_view key) const { return {this, bound(key, false)}; }
  const_iterator upper_bound(key_view key) const { return {this, bound(key, true)}; }

  /* A value for changing; nullptr: not found. */
  V *edit(key_view key) {
    node *found = search(key);
    return found ? &p3l::edit(found->value) : nullptr;
  }
  V &edit(const_iterator at) { return p3l::edit(const_cast<node *>(at.at_)->value); }
  /* The same, added if it is not found. */
  V &operator[](key_view key) {
    node *found = search(key);
    return found ? p3l::edit(found->value) : add(key)->value;
  }
  bool erase(key_view key) {
    node *found = search(key);
    if (found) remove(found);
    return found != nullptr;
  }
  /* @return the entry behind it. */
  const_iterator erase(const_iterator at) {
    const_iterator behind{this, next(at.at_)};
    remove(const_cast<node *>(at.at_));
    return behind;
  }
  void clear() {
    p3l_store *store = p3l_store_of(this);
    for (node *at = root_.get(), *above; at; at = above) { /* leaves first */
      above = at->left ? at->left.get() : at->right ? at->right.get() : nullptr;
      if (above) continue;
      above = at->parent.get();
      if (above) link_of(at) = nullptr;
      drop(store, at);
    }
    root_ = nullptr;
    size_ = 0;
  }

 private:
  pptr<node> root_;
  field<std::uint64_t> size_, inserted_; /* since it was made: invariant 2 */

  static const node *first(const node *at) {
    while (at && at->left) at = at->left;
    return at;
  }
  static const node *last(const node *at) {
    while (at && at->right) at = at->right;
    return at;
  }
  static const node *next(const node *at) {
    if (at->right) return first(at->right);
    const node *above = at->parent;
    for (; above && above->right.get() == at; above = above->parent) at = above;
    return above;
  }
  static const node *previous(const node *at) {
    if (at->left) return last(at->left);
    const node *above = at->parent;
    for (; above && above->left.get() == at; above = above->parent) at = above;
    return above;
  }

  node *search(key_view key) const {
    stored_order<K> before;
    node *at = root_;
    while (at) {
      if (before(key, at->key))
        at = at->left;
      else if (before(at->key, key))
        at = at->right;
      else
        return at;
    }
    return nullptr;
  }

  const node *bound(key_view key, bool behind) const {
    stored_order<K> before;
    const node *found = nullptr;
    for (const node *at = root_; at;) {
      bool left = behind ? before(key, at->key) : !before(at->key, key);
      if (left) found = at;
      at = left ? at->left : at->right;
    }
    return found;
  }

  /* The slot that leads to a node. */
  pptr<node> &link_of(node *at) {
    node *above = at->parent;
    return !above ? root_ : above->left.get() == at ? above->left : above->right;
  }

  /* A child takes the place of its parent, which becomes its child. */
  void rotate_up(node *at) {
    node *above = at->parent;
    bool left = above->left.get() == at;
    pptr<node> &inner = left ? at->right : at->left;
    link_of(above) = at;
    at->parent = above->parent;
    (left ? above->left : above->right) = inner;
    if (inner) inner->parent = above;
    inner = above;
    above->parent = at;
  }

  node *add(key_view key) {
    p3l_store *store = detail::store_around(this);
    stored_order<K> before;
    node *above = nullptr;
    pptr<node> *link = &root_;
    for (node *at = root_; at; at = *link) {
      above = at;
      link = before(key, at->key) ? &at->left : &at->right;
    }
    void *room = p3l_allocate(store, class_of<node>::type(), 1, above ? above : nullptr);
    if (__builtin_expect(!room, 0)) throw error(*p3l_failure(store));
    node *made = ::new (room) node();
    made->key = key;
    made->parent = above;
    inserted_ += 1u;
    made->priority = stored_hash<std::uint64_t>()(inserted_);
    *link = made;
    size_ += 1u;
    while (made->parent && made->parent->priority < made->priority) rotate_up(made);
    return made;
  }

  void remove(node *gone) {
    while (gone->left && gone->right)
      rotate_up(gone->left->priority > gone->right->priority ? gone->left : gone->right);
    node *child = gone->left ? gone->left : gone->right;
    link_of(gone) = child;
    if (child) child->parent = gone->parent;
    size_ -= 1u;
    drop(detail::store_around(this), gone);
  }

  void drop(p3l_store *store, node *gone) {
    detail::clear_element(p3l::edit(gone->key));
    detail::clear_element(p3l::edit(gone->value));
    p3l_delete(store, gone);
  }
};

template <class K, class V>
struct unions_of<map_node<K, V>> : detail::unions_of_entry<map_node<K, V>, K, V> {};

template <class K, class V>
struct class_of<map_node<K, V>> : detail::registered_class<class_of<map_node<K, V>>> {
  static const p3l_type *make() {
    return detail::describe<map_node<K, V>>(
        "p3l.node<" + detail::name_of<K>() + "," + detail::name_of<V>() + ">",
        detail::version_of<K>() * 65536 + detail::version_of<V>());
  }
};

template <class K, class V>
struct class_of<map<K, V>> : detail::registered_class<class_of<map<K, V>>> {
  static const p3l_type *make() {
    (void)class_of<map_node<K, V>>::type();
    return detail::describe<map<K, V>>(
        "p3l.tree<" + detail::name_of<K>() + "," + detail::name_of<V>() + ">", 1);
  }
};

}  // namespace p3l

#endif
