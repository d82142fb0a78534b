/*
 * A cpuset that changes while threads are placed, by a cgroup of this test (version 1 or 2): who is
 * placed, and which CPUs threads may use afterwards.
 */
#include "decided.h"
#include "fixture.h"

#include <mntent.h>

/* Two CPUs that this process may use, and all of them. */
static uint64_t first_cpu, last_cpu, all_cpus;
static char cgroup[300], parent[200]; /* folders */
static bool second_version, delegated;

static bool put(const char *folder, const char *name, const char *text) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) return false;
  bool written = fputs(text, file) >= 0;
  return fclose(file) == 0 && written;
}

static bool get(const char *folder, const char *name, char *text, int room) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  bool read = fgets(text, room, file) != NULL;
  fclose(file);
  return read;
}

/*
 * The cgroup of this process in the hierarchy with the cpuset controller: its folder and version.
 */
static bool find_parent(void) {
  char mount[128] = "", line[256], path[128] = "";
  FILE *mounts = setmntent("/proc/self/mounts", "r");
  for (struct mntent *entry; mounts && (entry = getmntent(mounts)) != NULL;) {
    char controllers[256] = "";
    bool first = strcmp(entry->mnt_type, "cgroup") == 0 && hasmntopt(entry, "cpuset");
    bool second = strcmp(entry->mnt_type, "cgroup2") == 0 &&
                  get(entry->mnt_dir, "cgroup.controllers", controllers, sizeof controllers) &&
                  strstr(controllers, "cpuset");
    if (!first && !second) continue;
    snprintf(mount, sizeof mount, "%s", entry->mnt_dir);
    second_version = second;
    break;
  }
  if (mounts) endmntent(mounts);
  FILE *ours = *mount ? fopen("/proc/self/cgroup", "r") : NULL;
  while (ours && fgets(line, sizeof line, ours)) {
    char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
    if (!at) continue;
    *at = '\0';
    if (second_version ? names[1] == '\0' : strcmp(names + 1, "cpuset") == 0)
      snprintf(path, sizeof path, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
  }
  if (ours) fclose(ours);
  if (!*path) return false;
  snprintf(parent, sizeof parent, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
  return true;
}

static bool allow(uint64_t cpus) {
  char list[64 * 3] = "";
  for (int cpu = 0, at = 0; cpu < 64; cpu++)
    if (cpus >> cpu & 1)
      at += snprintf(list + at, sizeof list - (size_t)at, "%s%d", at ? "," : "", cpu);
  return put(cgroup, "cpuset.cpus", list);
}

/* Moves this process into a new cgroup; NULL, or the reason why not. */
static const char *enter(void) {
  char memory[64] = "0", process[16];
  if (!find_parent()) return "no cgroup with the cpuset controller is mounted";
  snprintf(cgroup, sizeof cgroup, "%s/hardmeter-test-%d", parent, getpid());
  if (mkdir(cgroup, 0755) != 0) {
    *cgroup = '\0';
    return "no cgroup can be made here";
  }
  if (second_version)
    delegated = put(parent, "cgroup.subtree_control", "+cpuset");
  else if (get(parent, "cpuset.mems", memory, sizeof memory))
    put(cgroup, "cpuset.mems", memory);
  snprintf(process, sizeof process, "%d", getpid());
  return allow(all_cpus) && put(cgroup, "cgroup.procs", process) ? NULL
                                                                 : "the cpuset cannot be set here";
}

static int leave(void **state) {
  char process[16];
  remove_folder(state);
  snprintf(process, sizeof process, "%d", getpid());
  if (*cgroup) put(parent, "cgroup.procs", process);
  if (delegated) put(parent, "cgroup.subtree_control", "-cpuset");
  /* The kernel needs a moment to remove the processes that were in it. */
  for (int i = 0; *cgroup && rmdir(cgroup) != 0 && errno == EBUSY && i < 400; i++) pause_ms(5);
  *cgroup = '\0';
  return 0;
}

static int begin_placed(void **state) {
  all_cpus = allowed();
  if (all_cpus == 0) return -1;
  first_cpu = all_cpus & -all_cpus;
  last_cpu = UINT64_C(1) << (63 - __builtin_clzll(all_cpus));
  if (begin_with_text(state) != 0) return -1;
  heartbeat();
  return 0;
}

#define NEEDS_A_CPUSET()                                                     \
  do {                                                                       \
    const char *trouble = first_cpu == last_cpu ? "one processor" : enter(); \
    if (trouble) {                                                           \
      print_message("skipped: %s\n", trouble);                               \
      skip();                                                                \
    }                                                                        \
  } while (0)

static void place(const char *key, enum split_actuation actuation, uint64_t cpus) {
  decide(split_kind_of(key, strlen(key)), actuation, cpus);
}

static void section(const char *key) {
  heartbeat();
  split_start(0, key);
  split_end();
}

/*
 * The CPU that a thread was moved to is removed: the thread runs where it may, is not moved there
 * again, and gets all CPUs back.
 */
static void the_cpu_of_a_placed_thread_is_taken_away(void **state) {
  (void)state;
  NEEDS_A_CPUSET();
  place("clean", SPLIT_ACT_LAZY, first_cpu);
  section("clean");
  assert_int_equal(allowed(), first_cpu);
  assert_true(allow(last_cpu));
  assert_int_equal(allowed(), last_cpu);
  section("any");
  assert_int_equal(allowed(), last_cpu);
  section("clean");
  assert_int_equal(atomic_load(&header()->refused), 1);
  assert_int_equal(allowed(), last_cpu);
  assert_true(allow(all_cpus));
  assert_int_equal(allowed(), all_cpus);
}

/*
 * Affinity is restored within a narrow cpuset; when the cpuset becomes wide, so does the thread,
 * which never asked for less.
 */
static void what_is_given_back_in_a_narrow_cpuset_does_not_stay_narrow(void **state) {
  (void)state;
  NEEDS_A_CPUSET();
  assert_true(allow(last_cpu));
  place("paper", SPLIT_ACT_PAPER, last_cpu);
  place("lazy", SPLIT_ACT_LAZY, last_cpu);
  section("paper");
  section("lazy");
  assert_int_equal(allowed(), last_cpu);
  section("any");
  assert_true(allow(all_cpus));
  assert_int_equal(allowed(), all_cpus);
}

/* A thread that its host bound gets that binding back, whatever happens to the cpuset. */
static void what_the_host_bound_stays_bound(void **state) {
  (void)state;
  NEEDS_A_CPUSET();
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  CPU_SET((unsigned)__builtin_ctzll(last_cpu), &one);
  sched_setaffinity(0, sizeof one, &one);
  place("paper", SPLIT_ACT_PAPER, last_cpu);
  section("paper");
  assert_true(allow(last_cpu));
  section("paper");
  assert_true(allow(all_cpus));
  section("paper");
  assert_int_equal(allowed(), last_cpu);
  sched_setaffinity(0, sizeof all, &all);
  section("paper");
  assert_int_equal(allowed(), all_cpus);
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_placed, leave)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(the_cpu_of_a_placed_thread_is_taken_away),
      IN(what_is_given_back_in_a_narrow_cpuset_does_not_stay_narrow),
      IN(what_the_host_bound_stays_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
