; A check that nobody lowered is in the program for everybody to see: it does not assemble.
; RUN: p3l-first
target datalayout = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK: call ptr addrspace(100) asm "p3l_check_was_not_lowered_by_the_plugin", "=r,0,r"(ptr addrspace(100) %value, ptr nocapture %slot) #[[ATTRIBUTES:.*]]
; CHECK: attributes #[[ATTRIBUTES]] = { {{.*}}memory(none)
define ptr addrspace(100) @plain(ptr %slot) {
  %value = load ptr addrspace(100), ptr %slot
  ret ptr addrspace(100) %value
}
