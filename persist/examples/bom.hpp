/* A bill of materials: parts, and what they are made of. */
#ifndef BOM_HPP
#define BOM_HPP

#include <p3l.hpp>

struct use;

struct part {
  char name[24];
  p3l::field<std::int64_t> cents; /* its price; of an assembly, what putting it together costs */
  p3l::pptr<use> uses;            /* a list; null: it is bought */
};

struct use {
  p3l::pptr<part> what;
  std::int64_t pieces;
  p3l::pptr<use> next;
};

P3L_CLASS(part, part, 1);
P3L_CLASS(use, use, 1);

#endif
