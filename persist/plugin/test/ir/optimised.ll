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

; What was checked, moved on and stored is known when it is loaded again: one check.
; CHECK-LABEL: @forwarded(
; CHECK-COUNT-1: @__p3l_swizzle_value(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret i64
define i64 @forwarded(ptr addrspace(100) %slot) {
  %a = load ptr addrspace(100), ptr addrspace(100) %slot
  %next = getelementptr i8, ptr addrspace(100) %a, i64 16
  store ptr addrspace(100) %next, ptr addrspace(100) %slot
  %b = load ptr addrspace(100), ptr addrspace(100) %slot
  %x = load i64, ptr addrspace(100) %b
  ret i64 %x
}

declare void @other()
declare void @llvm.memcpy.p100.p100.i64(ptr addrspace(100), ptr addrspace(100), i64, i1)

; A call may bring a surrogate back: two checks.
; CHECK-LABEL: @forwarded_call(
; CHECK-COUNT-2: @__p3l_swizzle_value(
; CHECK:       ret i64
define i64 @forwarded_call(ptr addrspace(100) %slot) {
  %a = load ptr addrspace(100), ptr addrspace(100) %slot
  %next = getelementptr i8, ptr addrspace(100) %a, i64 16
  store ptr addrspace(100) %next, ptr addrspace(100) %slot
  call void @other()
  %b = load ptr addrspace(100), ptr addrspace(100) %slot
  %x = load i64, ptr addrspace(100) %b
  ret i64 %x
}

; So may a copy.
; CHECK-LABEL: @forwarded_copy(
; CHECK-COUNT-2: @__p3l_swizzle_value(
; CHECK:       ret i64
define i64 @forwarded_copy(ptr addrspace(100) %slot, ptr addrspace(100) %from) {
  %a = load ptr addrspace(100), ptr addrspace(100) %slot
  %next = getelementptr i8, ptr addrspace(100) %a, i64 16
  store ptr addrspace(100) %next, ptr addrspace(100) %slot
  %field = getelementptr i8, ptr addrspace(100) %slot, i64 -8
  call void @llvm.memcpy.p100.p100.i64(ptr addrspace(100) %field, ptr addrspace(100) %from, i64 16, i1 false)
  %b = load ptr addrspace(100), ptr addrspace(100) %slot
  %x = load i64, ptr addrspace(100) %b
  %y = load i64, ptr addrspace(100) %a
  %sum = add i64 %x, %y
  ret i64 %sum
}

; And an integer of eight bytes, to wherever.
; CHECK-LABEL: @forwarded_integer(
; CHECK-COUNT-2: @__p3l_swizzle_value(
; CHECK:       ret i64
define i64 @forwarded_integer(ptr addrspace(100) %slot, ptr addrspace(100) %other, i64 %number) {
  %a = load ptr addrspace(100), ptr addrspace(100) %slot
  %next = getelementptr i8, ptr addrspace(100) %a, i64 16
  store ptr addrspace(100) %next, ptr addrspace(100) %slot
  store i64 %number, ptr addrspace(100) %other
  %b = load ptr addrspace(100), ptr addrspace(100) %slot
  %x = load i64, ptr addrspace(100) %b
  ret i64 %x
}
