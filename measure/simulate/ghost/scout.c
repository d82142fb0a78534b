/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The scout finds the pages that a stretch needs while the followed process still stands: it runs the
 * stretch once on the processor, from the copy, in a process of its own. Each page that it meets and
 * that is not among the hot ones is added to the snapshot, with its contents at the stop.
 *
 *   waiting ── order: a process ──> mappings are read ──> waiting
 *   waiting ── order: a snapshot ──> pages copied, registers set by a signal's return ──> running
 *      ^                                                                                    │
 *      │       a page is missing: SIGSEGV, fetched and added to the snapshot ───────────────┤
 *      └────── a system call (SIGSYS), a fault that cannot be repaired, the time is up ─────┘
 *
 * Invariants:
 *  1. No system call of the followed code is executed: syscall user dispatch turns each into SIGSYS.
 *     Where the kernel has none, there is no scout.
 *  2. It traces nothing, and writes nothing but its own pages and the snapshot that it was given.
 *  3. A page is added only while the process stands: `sealed` is set before it runs on.
 *  4. Followed code that jumps to a system call of the scout itself gets no further than to read: a
 *     filter permits nothing else, since the scout may have more rights than the followed process.
 *  5. `in_guest` is 1 exactly while followed code runs; only then FS is the followed process's.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stddef.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "channel.h"
#include "ghost.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define DISPATCH_ON 1
#define TIME_LIMIT 1300 /* microseconds of one stretch */
#define PREPARE_LIMIT 20000000ull
#define LEGACY 464u /* bytes of the XSAVE area before those that the kernel keeps for itself */
#define HEADER 512u

extern const char __executable_start[], etext[];

static struct hm_channel *channel;
static struct hm_snapshot *slot;
static uint64_t own_fs, guest_fs;
static volatile int in_guest;
static jmp_buf way_out;
static volatile char blocked = 1;

/* Without errno, which lies behind FS. */
static long raw(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
}

static void set_fs(uint64_t base) { raw(SYS_arch_prctl, ARCH_SET_FS, (long)base, 0); }

/* --- Leaving and faults -------------------------------------------------------------------- */

static void add(uint64_t page) {
  uint32_t next = slot->pages;
  if (next >= HM_MOST_PAGES) return;
  memcpy(slot->data[next], (const void *)page, HM_PAGE);
  slot->page[next] = page;
  if (atomic_load(&slot->sealed) == 0) slot->pages = next + 1;
}

static void handle(int number, const siginfo_t *info) {
  uint64_t address = (uint64_t)info->si_addr, page = address & ~(uint64_t)(HM_PAGE - 1);
  if (number != SIGSEGV || atomic_load(&slot->sealed) != 0 || hm_is_own(address) ||
      hm_page_is_present(address) || !hm_need_page(address))
    longjmp(way_out, 1);
  if (!hm_page_is_constant(address)) add(page);
}

__attribute__((no_stack_protector)) static void interrupted(int number, siginfo_t *info,
                                                            void *context) {
  (void)context;
  if (!in_guest) {
    if (number == SIGALRM) return;
    raw(SYS_exit_group, 1, 0, 0);
  }
  set_fs(own_fs);
  in_guest = 0;
  handle(number, info);
  in_guest = 1;
  set_fs(guest_fs);
}

/* --- Entering ------------------------------------------------------------------------------- */

/* Replaces the registers to which the signal returns. */
__attribute__((no_stack_protector)) static void enter(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)info;
  const struct user_regs_struct *from = &slot->registers;
  ucontext_t *to = context;
  greg_t *general = to->uc_mcontext.gregs;
  const struct {
    int at;
    unsigned long long value;
  } all[] = {{REG_RAX, from->rax}, {REG_RBX, from->rbx}, {REG_RCX, from->rcx},
             {REG_RDX, from->rdx}, {REG_RSI, from->rsi}, {REG_RDI, from->rdi},
             {REG_RBP, from->rbp}, {REG_RSP, from->rsp}, {REG_R8, from->r8},
             {REG_R9, from->r9},   {REG_R10, from->r10}, {REG_R11, from->r11},
             {REG_R12, from->r12}, {REG_R13, from->r13}, {REG_R14, from->r14},
             {REG_R15, from->r15}, {REG_RIP, from->rip}, {REG_EFL, from->eflags & 0xcd5}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) general[all[i].at] = (greg_t)all[i].value;
  uint8_t *state = (uint8_t *)to->uc_mcontext.fpregs;
  uint32_t size;
  memcpy(&size, state + LEGACY + 16, sizeof size); /* struct _fpx_sw_bytes: xstate_size */
  if (size > slot->xstate_size) size = slot->xstate_size;
  memcpy(state, slot->xstate, LEGACY);
  if (size > HEADER) memcpy(state + HEADER, slot->xstate + HEADER, size - HEADER);
  guest_fs = from->fs_base;
  in_guest = 1;
  set_fs(guest_fs);
}

static void run(void) {
  const struct itimerval limit = {{0, TIME_LIMIT}, {0, TIME_LIMIT}}, none = {{0, 0}, {0, 0}};
  hm_begin_memory(slot, 0);
  setitimer(ITIMER_REAL, &limit, NULL);
  if (setjmp(way_out) == 0) raw(SYS_tgkill, getpid(), getpid(), SIGUSR1);
  setitimer(ITIMER_REAL, &none, NULL);
}

/* --- Rights ------------------------------------------------------------------------------------- */

#define ARGUMENT(n) offsetof(struct seccomp_data, args[n])
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define PERMIT(number) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), ANSWER(SECCOMP_RET_ALLOW)
#define REFUSAL ANSWER(SECCOMP_RET_ERRNO | EPERM)

/* Leaves what the scout needs: memory of its own, reading, waiting, signals to itself. */
static int give_up_rights(void) {
  struct sock_filter filter[] = {
      LOAD(offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      ANSWER(SECCOMP_RET_KILL_PROCESS),
      LOAD(offsetof(struct seccomp_data, nr)),
      PERMIT(SYS_process_vm_readv),
      PERMIT(SYS_futex),
      PERMIT(SYS_mmap),
      PERMIT(SYS_munmap),
      PERMIT(SYS_mprotect),
      PERMIT(SYS_madvise),
      PERMIT(SYS_brk),
      PERMIT(SYS_arch_prctl),
      PERMIT(SYS_setitimer),
      PERMIT(SYS_rt_sigreturn),
      PERMIT(SYS_rt_sigprocmask),
      PERMIT(SYS_clock_gettime),
      PERMIT(SYS_getpid),
      PERMIT(SYS_sched_yield),
      PERMIT(SYS_read),
      PERMIT(SYS_pread64),
      PERMIT(SYS_readlink),
      PERMIT(SYS_lseek),
      PERMIT(SYS_fstat),
      PERMIT(SYS_newfstatat),
      PERMIT(SYS_close),
      PERMIT(SYS_exit_group),
      /* Signals to itself. */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4),
      LOAD(ARGUMENT(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 0, 1),
      ANSWER(SECCOMP_RET_ALLOW),
      REFUSAL,
      /* Files that exist, for reading. */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
      LOAD(ARGUMENT(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_ACCMODE | O_CREAT | O_TRUNC, 1, 0),
      ANSWER(SECCOMP_RET_ALLOW),
      REFUSAL,
      REFUSAL,
  };
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* --- Orders ----------------------------------------------------------------------------------- */

static int begin(void) {
  static uint8_t stack[1 << 17];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_sigaction = interrupted,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGALRM};
  sigaltstack(&alternate, NULL);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    sigaction(numbers[i], &action, NULL);
  action.sa_sigaction = enter;
  sigaction(SIGUSR1, &action, NULL);
  raw(SYS_arch_prctl, ARCH_GET_FS, (long)&own_fs, 0);
  hm_pages_are_executable();
  return prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, __executable_start,
               etext - __executable_start, &blocked) == 0 &&
         give_up_rights();
}

static void prepare(int process) {
  hm_use_mappings(0);
  if (hm_read_mappings(process) != NULL) return;
  hm_follow_memory_of(process);
  hm_fetch_code();
}

_Noreturn static void serve(void) {
  uint32_t done = 0;
  if (!begin()) _exit(0);
  atomic_store(&channel->scout_ready, 1);
  for (;;) {
    uint32_t order = atomic_load(&channel->scout_order);
    if (order == done) {
      hm_wait_for_change(&channel->scout_order, order, 1000000000);
      continue;
    }
    uint32_t what = channel->scout_what;
    slot = what < HM_SNAPSHOTS ? &channel->snapshot[what] : NULL;
    if (slot != NULL)
      run();
    else
      prepare(channel->process);
    done = order;
    atomic_store(&channel->scout_done, done);
    hm_wake_waiter(&channel->scout_done);
    if (slot != NULL) hm_drop_late();
  }
}

void hm_start_scout(struct hm_channel *shared) {
  channel = shared;
  atomic_store(&channel->scout_ready, 0);
  atomic_store(&channel->scout_order, 0);
  atomic_store(&channel->scout_done, 0);
  pid_t parent = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_NAME, "ghost-scout");
  hm_raise_priority(1); /* below the stopper's: it must not wait for the scout's processor */
  serve();
}

static int is_free(void) {
  return atomic_load(&channel->scout_ready) != 0 &&
         atomic_load(&channel->scout_done) == atomic_load(&channel->scout_order);
}

static void order(uint32_t what) {
  channel->scout_what = what;
  atomic_fetch_add(&channel->scout_order, 1);
  hm_wake_waiter(&channel->scout_order);
}

static void wait_until(uint64_t limit) {
  uint32_t done;
  uint64_t now;
  if (atomic_load(&channel->scout_ready) == 0) return;
  while ((done = atomic_load(&channel->scout_done)) != atomic_load(&channel->scout_order) &&
         (now = hm_now()) < limit)
    hm_wait_for_change(&channel->scout_done, done, limit - now);
}

void hm_scout_prepare(void) {
  if (is_free()) order(HM_SNAPSHOTS);
  wait_until(hm_now() + PREPARE_LIMIT);
}

void hm_scout(struct hm_snapshot *of, uint64_t until) {
  if (!is_free()) return;
  atomic_store(&of->sealed, 0);
  order((uint32_t)(of - channel->snapshot));
  wait_until(until);
  atomic_store(&of->sealed, 1);
}
