; All pointers may be surrogates, all memory but the program's own variables may be persistent.
; RUN: p3l-first,p3l-last -p3l=orthogonal
target datalayout = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare void @sink(ptr)
declare noalias ptr @malloc(i64) allockind("alloc,uninitialized") allocsize(0) "alloc-family"="malloc"
@global = global i64 0

; CHECK-LABEL: @plain(
; CHECK:       @__p3l_swizzle_value(ptr %value, ptr %slot)
define ptr @plain(ptr %slot) {
  %value = load ptr, ptr %slot
  ret ptr %value
}

; The address of a function is no object's.
; CHECK-LABEL: @callee(
; CHECK-NOT:   swizzle_value
; CHECK:       ret void
define void @callee(ptr %slot) {
  %function = load ptr, ptr %slot
  call void %function()
  ret void
}

; Nor does it become one when it is also compared; what else is done with the pointer is checked.
; CHECK-LABEL: @callee_and_test(
; CHECK-NOT:   swizzle_value
; CHECK:       ret i1
define i1 @callee_and_test(ptr %slot) {
  %function = load ptr, ptr %slot
  call void %function()
  %set = icmp ne ptr %function, null
  ret i1 %set
}

; CHECK-LABEL: @callee_and_argument(
; CHECK:       @__p3l_swizzle_value(
; CHECK:       call void %{{.*}}(ptr %swizzled)
define void @callee_and_argument(ptr %slot) {
  %function = load ptr, ptr %slot
  call void %function(ptr %function)
  ret void
}

; No persistent object is where a variable of the program is; of two loaded pointers both may be.
; CHECK-LABEL: @is_variable(
; CHECK-NOT:   swizzle_value
; CHECK:       ret i1
define i1 @is_variable(ptr %slot) {
  %value = load ptr, ptr %slot
  %same = icmp eq ptr %value, @global
  ret i1 %same
}

; CHECK-LABEL: @is_argument(
; CHECK:       @__p3l_swizzle_value(
; CHECK:       ret i1
define i1 @is_argument(ptr %slot, ptr %other) {
  %value = load ptr, ptr %slot
  %same = icmp eq ptr %value, %other
  ret i1 %same
}

; CHECK-LABEL: @is_before_variable(
; CHECK:       @__p3l_swizzle_value(
; CHECK:       ret i1
define i1 @is_before_variable(ptr %slot) {
  %value = load ptr, ptr %slot
  %before = icmp ult ptr %value, @global
  ret i1 %before
}

; Two instructions for memory that is not persistent.
; CHECK-LABEL: @write(
; CHECK:       and i64 %{{.*}}, 70368744177664
; CHECK:       %may_be_persistent = icmp eq i64 %{{.*}}, 0
; CHECK:       br i1 %may_be_persistent
; CHECK:       call preserve_mostcc void @__p3l_mark(ptr %at, i64 8)
define void @write(ptr %at) {
  store i64 1, ptr %at
  ret void
}

; TSan has no memory down there.
; CHECK-LABEL: @write_with_tsan(
; CHECK-NOT:   may_be_persistent
; CHECK:       @__p3l_will_write(ptr %at, i64 8)
define void @write_with_tsan(ptr %at) sanitize_thread {
  store i64 1, ptr %at
  ret void
}

; CHECK-LABEL: @own_memory(
; CHECK-NOT:   __p3l
; CHECK:       ret void
define void @own_memory() {
  %local = alloca i64
  call void @sink(ptr %local)
  %heap = call ptr @malloc(i64 8)
  store i64 1, ptr %local
  store i64 1, ptr @global
  store i64 1, ptr %heap
  ret void
}
