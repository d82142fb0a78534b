; What is marked, and when one mark is enough for several writes.
; RUN: p3l-last
target datalayout = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare void @other()
declare ptr @strcpy(ptr, ptr)
declare void @llvm.masked.store.v2i64.p100(<2 x i64>, ptr addrspace(100), i32, <2 x i1>)
declare void @llvm.memset.p100.i64(ptr addrspace(100), i8, i64, i1)

; Eight bytes, aligned: on one card.
; CHECK-LABEL: @one(
; CHECK:       load i64, ptr @p3l_persistent_memory
; CHECK:       %is_persistent = icmp ult i64
; CHECK:       lshr i64 %{{.*}}, 10
; CHECK-NOT:   lshr
; CHECK:       call preserve_mostcc void @__p3l_will_write(ptr %{{.*}}, i64 8)
; CHECK:       store i64 1, ptr addrspace(100) %at
define void @one(ptr addrspace(100) %at) {
  store i64 1, ptr addrspace(100) %at
  ret void
}

; CHECK-LABEL: @plain(
; CHECK-NOT:   will_write
; CHECK:       ret void
define void @plain(ptr %at) {
  store i64 1, ptr %at
  ret void
}

; Fields of one object: one mark, over both, before the first.
; CHECK-LABEL: @fields(
; CHECK:       @__p3l_will_write(ptr %{{.*}}, i64 20)
; CHECK:       store i32
; CHECK-NOT:   will_write
; CHECK:       ret void
define void @fields(ptr addrspace(100) %at) {
  %second = getelementptr inbounds i8, ptr addrspace(100) %at, i64 16
  store i32 1, ptr addrspace(100) %second
  store i32 1, ptr addrspace(100) %at
  ret void
}

; The call may end the transaction.
; CHECK-LABEL: @call_between(
; CHECK-COUNT-2: @__p3l_will_write(
define void @call_between(ptr addrspace(100) %at) {
  store i32 1, ptr addrspace(100) %at
  call void @other()
  store i32 1, ptr addrspace(100) %at
  ret void
}

; Offsets that leave the object say nothing about it.
; CHECK-LABEL: @not_inbounds(
; CHECK-COUNT-2: @__p3l_will_write(
define void @not_inbounds(ptr addrspace(100) %at) {
  %second = getelementptr i8, ptr addrspace(100) %at, i64 16
  store i32 1, ptr addrspace(100) %at
  store i32 1, ptr addrspace(100) %second
  ret void
}

; Marked on every way to the last one.
; CHECK-LABEL: @both_ways(
; CHECK-COUNT-2: @__p3l_will_write(
; CHECK-NOT:   will_write
; CHECK:       ret void
define void @both_ways(ptr addrspace(100) %at, i1 %way) {
  br i1 %way, label %left, label %right
left:
  store i32 1, ptr addrspace(100) %at
  br label %end
right:
  store i32 2, ptr addrspace(100) %at
  br label %end
end:
  store i32 3, ptr addrspace(100) %at
  ret void
}

; CHECK-LABEL: @one_way(
; CHECK-COUNT-2: @__p3l_will_write(
; CHECK:       ret void
define void @one_way(ptr addrspace(100) %at, i1 %way) {
  br i1 %way, label %left, label %end
left:
  store i32 1, ptr addrspace(100) %at
  br label %end
end:
  store i32 3, ptr addrspace(100) %at
  ret void
}

; The pointer of the last round is not that of this one: the mark stays in the loop, and what comes
; after the loop is covered by the last round's.
; CHECK-LABEL: @list(
; CHECK:       loop:
; CHECK:       @__p3l_will_write(
; CHECK-NOT:   will_write
; CHECK:       ret void
define void @list(ptr addrspace(100) %first) {
  br label %loop
loop:
  %at = phi ptr addrspace(100) [ %first, %0 ], [ %next, %loop ]
  store i32 1, ptr addrspace(100) %at
  %next = getelementptr inbounds i8, ptr addrspace(100) %at, i64 64
  %number = ptrtoint ptr addrspace(100) %next to i64
  %end = icmp eq i64 %number, 4096
  br i1 %end, label %after, label %loop
after:
  store i32 2, ptr addrspace(100) %at
  ret void
}

; Lanes that are not written are not marked.
; CHECK-LABEL: @masked(
; CHECK:       extractelement <2 x i1> %mask, i64 0
; CHECK:       @__p3l_will_write(ptr %{{.*}}, i64 8)
; CHECK:       extractelement <2 x i1> %mask, i64 1
; CHECK:       @__p3l_will_write(ptr %{{.*}}, i64 8)
define void @masked(ptr addrspace(100) %at, <2 x i1> %mask) {
  call void @llvm.masked.store.v2i64.p100(<2 x i64> zeroinitializer, ptr addrspace(100) %at, i32 8, <2 x i1> %mask)
  ret void
}

; CHECK-LABEL: @memory(
; CHECK:       %[[NONE:.*]] = icmp ne i64 %bytes, 0
; CHECK:       br i1 %[[NONE]]
; CHECK:       @__p3l_will_write(ptr %{{.*}}, i64 %bytes)
define void @memory(ptr addrspace(100) %at, i64 %bytes) {
  call void @llvm.memset.p100.i64(ptr addrspace(100) %at, i8 0, i64 %bytes, i1 false)
  ret void
}

; CHECK-LABEL: @library(
; CHECK:       %[[LENGTH:.*]] = call i64 @strlen(ptr %from)
; CHECK:       %[[BYTES:.*]] = add i64 %[[LENGTH]], 1
; CHECK:       @__p3l_will_write(ptr %{{.*}}, i64 %[[BYTES]])
define void @library(ptr addrspace(100) %at, ptr %from) {
  %plain = addrspacecast ptr addrspace(100) %at to ptr
  call ptr @strcpy(ptr %plain, ptr %from)
  ret void
}
