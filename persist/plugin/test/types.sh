#!/bin/sh
# types.sh P3L_CLANG FOLDER: tests the types that P3L_PERSISTENT describes and those that it refuses.
set -eu
clang=$1 folder=$2
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$folder"
cd "$folder"
cat >expected <<'END'
part: version 2, 160 bytes
  to: 3 slots at 8
  entries[]: 1 slots at 40
  entries[]: 1 slots at 56
  next: 1 slots at 64
  one.value: 1 slots at 80
  first: 1 slots at 88
  grid: 4 slots at 128
leaf: version 1, 4 bytes
mixed: version 1, 24 bytes
  is.pointer: 0 slots at 8
  next: 1 slots at 16
  union is: 8 bytes at 8, arms 0 and 1
END
words="-I$here/../include -I$here/../../include $here/types.c"
# shellcheck disable=SC2086 # words
compile() { "$clang" $words "$@"; }

for mode in qualified orthogonal; do
  for level in -O0 -O2 '-O0 -g'; do
    # shellcheck disable=SC2086
    compile --p3l=$mode $level -o types 2>messages || { cat messages >&2; exit 1; }
    ./types | diff expected - || { echo "mode $mode, $level" >&2; exit 1; }
  done
done

refused() { # DEFINE WORDS: the compiler refuses it, and says so.
  if compile "-D$1" -c -o types.o 2>messages; then echo "$1 is taken" >&2; exit 1; fi
  grep -q "$2" messages || { cat messages >&2; exit 1; }
}
refused MIXED_UNION 'the pointer either.pointer shares its place with either.number'
refused UNKNOWN_LENGTH 'rest is an array of pointers without a length'
compile -DPLAIN_POINTER -c -o types.o 2>messages
grep -q 'struct part::plain is a plain pointer' messages || { cat messages >&2; exit 1; }

# Without the plugin the compiler prints a message and the program does not link.
if compile --p3l=off -c -o types.o 2>messages; then echo 'the header works without the plugin' >&2; exit 1; fi
grep -q 'compile with p3l-clang' messages
if compile --p3l=off -DP3L_QUALIFIED -o types 2>messages; then echo 'it links without the plugin' >&2; exit 1; fi
grep -q 'p3l.fields.part' messages
