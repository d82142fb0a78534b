/*
 * P3L for C++17: vector, deque, string, unordered_map, map, optional and unique_ptr in a store, built
 * from pptrs like user-defined classes.
 *
 *   struct entry { std::uint64_t count; p3l::vector<std::uint64_t> lines; };
 *   P3L_CLASS(entry, entry, 1);
 *   using index = p3l::unordered_map<p3l::string, entry>;
 *
 *   index *words = store.root<index>("words");
 *   store.transact([&] { (*words)["tree"].lines.push_back(7); });
 *
 * Rules:
 *  1. They are stored in a store: as members of persistent classes, as elements of each other, or
 *     made by store.make<>(). One elsewhere is empty, and adding to it is P3L_MISUSE.
 *  2. Elements are read as const. What changes an element reports it: edit(), operator[] of a map, and
 *     the members that add and remove. Changes are made within a transaction.
 *  3. Persistent classes have no destructors: call clear() before the owner is erased, or what they
 *     hold is garbage that p3l gc collects. A container calls clear() of each element that it removes,
 *     if that has one: a class of your own that has containers needs one that clears them.
 *  4. References and iterators to elements of a vector end when it grows; to those of a map when they
 *     are erased.
 */
#ifndef P3L_CONTAINERS_HPP
#define P3L_CONTAINERS_HPP

#include "p3l_deque.hpp"
#include "p3l_map.hpp"
#include "p3l_members.hpp"
#include "p3l_string.hpp"
#include "p3l_unordered_map.hpp"
#include "p3l_vector.hpp"

#endif
