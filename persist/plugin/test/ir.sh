#!/bin/sh
# ir.sh OPT FILECHECK PLUGIN FILE: runs the passes named in FILE's RUN line and compares the output with its
# CHECK lines.
set -eu
opt=$1 filecheck=$2 plugin=$3 file=$4
run=$(sed -n 's/^; RUN: //p' "$file")
passes=${run%% *} options=${run#"$passes"}
# shellcheck disable=SC2086 # words
"$opt" "-load=$plugin" "-load-pass-plugin=$plugin" $options "-passes=$passes,verify" -S "$file" -o - |
  "$filecheck" "$file"
