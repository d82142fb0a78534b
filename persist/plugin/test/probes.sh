#!/bin/sh
# probes.sh P3L_CLANG FOLDER MODE [FLAG ...]: compiles the probes with the plugin and without, runs both. MODE
# missed: the program is compiled without the plugin and must trap.
set -eu
clang=$1 folder=$2 mode=$3
shift 3
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$folder"
cd "$folder"
plain="-O1 -g -I$here -I$here/../../include"
link=-Wall # nothing: a word that is not empty
for flag in "$@"; do
  case $flag in
    -flto*) link=-fuse-ld=lld-$("$clang" -dumpversion | cut -d. -f1) ;;
    -march=x86-64-v3) grep -qw avx2 /proc/cpuinfo || { echo "this processor has no AVX2"; exit 77; } ;;
  esac
done

# shellcheck disable=SC2086 # words
"$clang" --p3l=off $plain '-DPROBE(name)=plain_##name' -c "$here/probes.c" -o plain.o
# shellcheck disable=SC2086
"$clang" --p3l=off $plain -c "$here/probes_main.c" -o main.o
"$clang" --p3l=off -c "$here/../../runtime/swizzle_entry.S" -o entry.o
wrapper=$mode
if [ "$mode" = missed ]; then wrapper=off; fi
"$clang" "--p3l=$wrapper" -g -Wall -Wextra -Werror -I"$here" "$@" -c "$here/probes.c" -o probes.o
"$clang" "--p3l=$wrapper" "$@" "$link" probes.o plain.o main.o entry.o -o probes
if [ "$mode" != missed ]; then exec ./probes; fi
if ./probes; then
  echo 'a program without checks has run to its end' >&2
  exit 1
elif [ $? -ne 139 ]; then
  echo 'a program without checks ended otherwise than by SIGSEGV' >&2
  exit 1
fi
