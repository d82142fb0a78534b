; Checks between which nothing changes are one; checks of what nobody uses are none; a check is not
; executed where the program did not.
; RUN: default<O2>
target datalayout = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: @twice(
; CHECK-COUNT-1: @__p3l_swizzle_value(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret i64
define i64 @twice(ptr addrspace(100) %slot) {
  %a = load ptr addrspace(100), ptr addrspace(100) %slot
  %x = load i64, ptr addrspace(100) %a
  %b = load ptr addrspace(100), ptr addrspace(100) %slot
  %at = getelementptr i8, ptr addrspace(100) %b, i64 8
  %y = load i64, ptr addrspace(100) %at
  %sum = add i64 %x, %y
  ret i64 %sum
}

; CHECK-LABEL: @unused(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret void
define void @unused(ptr addrspace(100) %slot) {
  %a = load ptr addrspace(100), ptr addrspace(100) %slot
  ret void
}

; A word that is a number or a pointer: the check belongs to the branch where it is a pointer.
; CHECK-LABEL: @tagged(
; CHECK:       br i1
; CHECK:       pointer:
; CHECK:       @__p3l_swizzle_value(
define i64 @tagged(ptr addrspace(100) %slot, i1 %is_pointer) {
  %number = load i64, ptr addrspace(100) %slot
  br i1 %is_pointer, label %pointer, label %end
pointer:
  %value = load ptr addrspace(100), ptr addrspace(100) %slot
  %x = load i64, ptr addrspace(100) %value
  br label %end
end:
  %result = phi i64 [ %number, %0 ], [ %x, %pointer ]
  ret i64 %result
}
