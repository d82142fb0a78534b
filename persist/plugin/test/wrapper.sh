#!/bin/sh
# wrapper.sh P3L_CLANG FOLDER: tests the arguments that p3l-clang passes on and its messages.
set -eu
clang=$1 folder=$2
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$folder"
cd "$folder"
fail() { printf '%s\n' "$*" >&2; exit 1; }

"$clang" --version | grep -q '^p3l-clang: plugin for clang' || fail '--version'
"$clang" --help | grep -q 'p3l=orthogonal' || fail '--help'
test -e "$("$clang" --p3l-plugin)" || fail '--p3l-plugin'
if "$clang" --p3l=most x.c 2>messages; then fail 'takes any mode'; fi
grep -q 'remedy: --p3l=qualified' messages || fail 'no remedy'

# Arguments with blanks and quotes are passed unchanged; p3l-clang's own options are removed at every stage.
cat >'a file.c' <<'END'
#include <stdio.h>
int main(void) { return puts(TEXT) < 0; }
END
# shellcheck disable=SC2016 # the dollar is text
"$clang" -Wall -Wextra -Werror '-DTEXT="it'"'"'s a $text"' -c 'a file.c' -o 'an object.o'
"$clang" -Werror 'an object.o' -o 'a program'
test "$('./a program')" = "it's a \$text" || fail 'arguments'
"$clang" -Werror -DTEXT='"x"' -S -emit-llvm 'a file.c' -o x.ll
"$clang" -Werror -c x.ll -o x.o # compiled before: nothing twice
"$clang" -Werror -E -DTEXT='"x"' 'a file.c' >/dev/null

# C++ is orthogonal without an option.
cat >x.cc <<'END'
#include <map>
#include <string>
struct shape { virtual ~shape() {} virtual int sides() const = 0; };
struct square : shape { int sides() const override { return 4; } };
#ifndef P3L_ORTHOGONAL
#error not orthogonal
#endif
int main() {
  std::map<std::string, shape *> shapes{{"a", new square}, {"b", new square}};
  int sides = 0;
  try {
    for (auto &[name, shape] : shapes) sides += shape->sides();
    throw sides;
  } catch (int caught) {
    sides = caught;
  }
  for (auto &[name, shape] : shapes) delete shape;
  return sides == 8 ? 0 : 1;
}
END
cat >library.c <<'END'
#include "p3l_access.h"
p3l_memory p3l_persistent_memory;
void *p3l_swizzle(void *slot, const void *surrogate) { (void)slot; return (void *)surrogate; }
void p3l_will_write(void *address, size_t bytes) { (void)address; (void)bytes; __builtin_trap(); }
END
"$clang" --p3l=off -c "$here/../../runtime/swizzle_entry.S" -o entry.o
"$clang" --p3l=off "-I$here/../../include" -c library.c -o library.o
for level in -O0 -O2; do
  "${clang}++" -std=c++17 -Wall -Wextra -Werror $level x.cc entry.o library.o -o x
  ./x || fail "C++ at $level"
done
