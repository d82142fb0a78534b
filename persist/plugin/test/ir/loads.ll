; Which loads are checked, and how.
; RUN: p3l-first,p3l-last
target datalayout = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare void @escape(ptr)
@constant = internal constant ptr addrspace(100) null
@private = internal global ptr addrspace(100) null
@public = global ptr addrspace(100) null

; CHECK-LABEL: @plain(
; CHECK-SAME:  !prof ![[OURS:[0-9]+]]
; CHECK:       %value = load ptr addrspace(100), ptr %slot
; CHECK:       %is_surrogate = icmp slt i64 %{{.*}}, 0
; CHECK:       br i1 %is_surrogate, label %[[SLOW:.*]], label %{{.*}}, !prof
; CHECK:       [[SLOW]]:
; CHECK:       call preserve_mostcc ptr @__p3l_swizzle_value(ptr %{{.*}}, ptr %slot)
; CHECK:       %swizzled = phi ptr addrspace(100) [ %value, %{{.*}} ], [ %{{.*}}, %[[SLOW]] ]
; CHECK:       ret ptr addrspace(100) %swizzled
define ptr addrspace(100) @plain(ptr %slot) {
  %value = load ptr addrspace(100), ptr %slot
  ret ptr addrspace(100) %value
}

; A pointer to other memory is none of our business in qualified mode.
; CHECK-LABEL: @other(
; CHECK-NOT:   swizzle_value
; CHECK:       ret ptr
define ptr @other(ptr %slot) {
  %value = load ptr, ptr %slot
  ret ptr %value
}

; What a vectoriser might have made: lane by lane.
; CHECK-LABEL: @vector(
; CHECK-COUNT-2: @__p3l_swizzle_value(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret <2 x ptr addrspace(100)>
define <2 x ptr addrspace(100)> @vector(ptr addrspace(100) %slot) {
  %value = load <2 x ptr addrspace(100)>, ptr addrspace(100) %slot
  ret <2 x ptr addrspace(100)> %value
}

; A struct that is returned in registers.
; CHECK-LABEL: @aggregate(
; CHECK-COUNT-3: @__p3l_swizzle_value(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret { i64, ptr addrspace(100), [2 x ptr addrspace(100)] }
define { i64, ptr addrspace(100), [2 x ptr addrspace(100)] } @aggregate(ptr %slot) {
  %value = load { i64, ptr addrspace(100), [2 x ptr addrspace(100)] }, ptr %slot
  ret { i64, ptr addrspace(100), [2 x ptr addrspace(100)] } %value
}

; An atomic load, as the front end has it. The slot is known again at the end, and healed.
; CHECK-LABEL: @atomic(
; CHECK:       @__p3l_swizzle_value(ptr %{{.*}}, ptr %slot)
define ptr addrspace(100) @atomic(ptr %slot) {
  %number = load atomic i64, ptr %slot acquire, align 8
  %value = inttoptr i64 %number to ptr addrspace(100)
  ret ptr addrspace(100) %value
}

; Variables that only this code writes to, pointers only.
; CHECK-LABEL: @private_variables(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret
define ptr addrspace(100) @private_variables(ptr addrspace(100) %argument) {
  %local = alloca ptr addrspace(100)
  store ptr addrspace(100) %argument, ptr %local
  store ptr addrspace(100) %argument, ptr @private
  %first = load ptr addrspace(100), ptr %local
  %second = load ptr addrspace(100), ptr @private
  %third = load ptr addrspace(100), ptr @constant
  %same = icmp eq ptr addrspace(100) %first, %second
  %result = select i1 %same, ptr addrspace(100) %first, ptr addrspace(100) %third
  ret ptr addrspace(100) %result
}

; The same with an address that others have, or a copy of who knows what.
; CHECK-LABEL: @shared_variables(
; CHECK-COUNT-3: @__p3l_swizzle_value(
; CHECK:       ret
define ptr addrspace(100) @shared_variables(ptr addrspace(100) %from) {
  %local = alloca ptr addrspace(100)
  %copy = alloca ptr addrspace(100)
  call void @escape(ptr %local)
  call void @llvm.memcpy.p0.p100.i64(ptr %copy, ptr addrspace(100) %from, i64 8, i1 false)
  %first = load ptr addrspace(100), ptr %local
  %second = load ptr addrspace(100), ptr %copy
  %third = load ptr addrspace(100), ptr @public
  %same = icmp eq ptr addrspace(100) %first, %second
  %result = select i1 %same, ptr addrspace(100) %first, ptr addrspace(100) %third
  ret ptr addrspace(100) %result
}

; Compiled before: nothing is added.
; CHECK-LABEL: @again(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret ptr
define ptr addrspace(100) @again(ptr %slot) "p3l-marked" {
  %value = load ptr addrspace(100), ptr %slot
  ret ptr addrspace(100) %value
}

declare void @llvm.memcpy.p0.p100.i64(ptr, ptr addrspace(100), i64, i1)

; A test for null needs no check: no surrogate is null.
; CHECK-LABEL: @null_test(
; CHECK-NOT:   swizzle_value(
; CHECK:       ret i1
define i1 @null_test(ptr %slot) {
  %value = load ptr addrspace(100), ptr %slot
  %none = icmp eq ptr addrspace(100) %value, null
  ret i1 %none
}

; The check goes behind the test, to where the pointer is used.
; CHECK-LABEL: @null_test_first(
; CHECK:       %none = icmp eq ptr addrspace(100) %value, null
; CHECK-NEXT:  br i1 %none, label %end, label %used
; CHECK:       used:
; CHECK:       %is_surrogate = icmp slt
; CHECK:       @__p3l_swizzle_value(ptr %{{.*}}, ptr %slot)
; CHECK:       ret i64
define i64 @null_test_first(ptr %slot) {
  %value = load ptr addrspace(100), ptr %slot
  %none = icmp eq ptr addrspace(100) %value, null
  br i1 %none, label %end, label %used
used:
  %x = load i64, ptr addrspace(100) %value
  br label %end
end:
  %result = phi i64 [ 0, %0 ], [ %x, %used ]
  ret i64 %result
}

; In a list's loop: onto the way back to its beginning.
; CHECK-LABEL: @null_test_of_loop(
; CHECK:       %next = load
; CHECK-NEXT:  %more = icmp ne ptr addrspace(100) %next, null
; CHECK-NEXT:  br i1 %more, label %[[BACK:.*]], label %end
; CHECK:       [[BACK]]:
; CHECK:       %is_surrogate = icmp slt
; CHECK:       ret void
define void @null_test_of_loop(ptr addrspace(100) %first) {
  br label %loop
loop:
  %part = phi ptr addrspace(100) [ %first, %0 ], [ %next, %loop ]
  %slot = getelementptr i8, ptr addrspace(100) %part, i64 8
  %next = load ptr addrspace(100), ptr addrspace(100) %slot
  %more = icmp ne ptr addrspace(100) %next, null
  br i1 %more, label %loop, label %end
end:
  ret void
}

; Used on both ways: as it was.
; CHECK-LABEL: @null_test_and_both(
; CHECK:       %value = load
; CHECK:       %is_surrogate = icmp slt
; CHECK:       br i1 %none
define ptr addrspace(100) @null_test_and_both(ptr %slot) {
  %value = load ptr addrspace(100), ptr %slot
  %none = icmp eq ptr addrspace(100) %value, null
  br i1 %none, label %end, label %used
used:
  %x = load i64, ptr addrspace(100) %value
  br label %end
end:
  ret ptr addrspace(100) %value
}

; Used on one way only: checked there.
; CHECK-LABEL: @one_way(
; CHECK:       %value = load
; CHECK-NOT:   is_surrogate
; CHECK:       br i1 %way
; CHECK:       used:
; CHECK:       %is_surrogate = icmp slt
; CHECK:       ret i64
define i64 @one_way(ptr %slot, i1 %way) {
  %value = load ptr addrspace(100), ptr %slot
  br i1 %way, label %used, label %end
used:
  %x = load i64, ptr addrspace(100) %value
  br label %end
end:
  %result = phi i64 [ 0, %0 ], [ %x, %used ]
  ret i64 %result
}

; The call may free the slot, or put another surrogate there: checked before.
; CHECK-LABEL: @one_way_behind_call(
; CHECK:       %is_surrogate = icmp slt
; CHECK:       call void @escape
; CHECK-NOT:   is_surrogate
; CHECK:       ret i64
define i64 @one_way_behind_call(ptr %slot, i1 %way) {
  %value = load ptr addrspace(100), ptr %slot
  call void @escape(ptr %slot)
  br i1 %way, label %used, label %end
used:
  %x = load i64, ptr addrspace(100) %value
  br label %end
end:
  %result = phi i64 [ 0, %0 ], [ %x, %used ]
  ret i64 %result
}

; The call on the way stops it, too.
; CHECK-LABEL: @one_way_and_call(
; CHECK:       %is_surrogate = icmp slt
; CHECK:       call void @escape
; CHECK-NOT:   is_surrogate
; CHECK:       ret i64
define i64 @one_way_and_call(ptr %slot, i1 %way, i1 %second) {
  %value = load ptr addrspace(100), ptr %slot
  br i1 %way, label %first, label %end
first:
  call void @escape(ptr %slot)
  br i1 %second, label %used, label %end
used:
  %x = load i64, ptr addrspace(100) %value
  br label %end
end:
  %result = phi i64 [ 0, %0 ], [ 0, %first ], [ %x, %used ]
  ret i64 %result
}

; A phi of a block with one predecessor wants its value before: as it was.
; CHECK-LABEL: @one_way_to_phi(
; CHECK:       %is_surrogate = icmp slt
; CHECK:       br i1 %way
; CHECK:       %result = phi
define ptr addrspace(100) @one_way_to_phi(ptr %slot, i1 %way) {
  %value = load ptr addrspace(100), ptr %slot
  br i1 %way, label %used, label %end
used:
  %result = phi ptr addrspace(100) [ %value, %0 ]
  ret ptr addrspace(100) %result
end:
  ret ptr addrspace(100) null
}

; A profile that the program has is better than ours.
; CHECK-LABEL: @profiled(
; CHECK-SAME:  !prof ![[PROFILE:[0-9]+]]
define ptr addrspace(100) @profiled(ptr %slot) !prof !0 {
  %value = load ptr addrspace(100), ptr %slot
  ret ptr addrspace(100) %value
}

; The slow path keeps registers that the dynamic linker does not keep while it binds a function late.
; CHECK:       declare preserve_mostcc ptr @__p3l_swizzle_value(ptr, ptr) #[[BOUND_EARLY:[0-9]+]]
; CHECK:       attributes #[[BOUND_EARLY]] = { nonlazybind }

; CHECK-DAG:   ![[OURS]] = !{!"function_entry_count", i64 1}
; CHECK-DAG:   ![[PROFILE]] = !{!"function_entry_count", i64 77}
!0 = !{!"function_entry_count", i64 77}
