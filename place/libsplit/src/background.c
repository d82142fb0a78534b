/*
 * The background: threads of class SCHED_IDLE run only when a processor has no other thread to run,
 * and are preempted at once. No state.
 *
 * Two conditions can rule it out:
 *   - Any thread may enter the background, but to leave it needs an RLIMIT_NICE of 20 minus the
 *     thread's nice, or CAP_SYS_NICE in the first user namespace.
 *   - Classes and nice order the threads of one scheduling group. If the kernel makes a group for
 *     each session (autogroup), and each process of a server begins a session, as PostgreSQL's do,
 *     every process is alone in its group. Only sessions in the root cpu cgroup are grouped this
 *     way: a service or container with its own cpu cgroup is not affected.
 */
#include "background.h"

#include "process.h"
#include "segment.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The beginning of a file as text; empty if it cannot be read. */
static const char *text_of(const char *path, char *text, size_t room) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = descriptor < 0 ? 0 : read(descriptor, text, room - 1);
  if (descriptor >= 0) close(descriptor);
  text[length > 0 ? length : 0] = '\0';
  return text;
}

static bool in_first_user_namespace(void) {
  char text[128];
  unsigned inside, outside, count;
  return sscanf(text_of("/proc/self/uid_map", text, sizeof text), "%u %u %u", &inside, &outside,
                &count) == 3 &&
         inside == 0 && outside == 0 && count == UINT32_MAX;
}

static bool may_return(int32_t nice) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur >= (rlim_t)(20 - nice)) return true;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
  return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_SYS_NICE) != 0 &&
         in_first_user_namespace();
}

/*
 * True if this folder of the unified hierarchy, or one above it, has processor shares. The root has
 * none.
 */
static bool has_shares(char *path) {
  char file[512];
  for (;;) {
    int length = snprintf(file, sizeof file, "/sys/fs/cgroup%s/cpu.weight", path);
    if (length > 0 && (size_t)length < sizeof file && access(file, F_OK) == 0) return true;
    char *last = strrchr(path, '/');
    if (!last || path[0] == '\0') return false;
    *last = '\0';
  }
}

static bool names_cpu(const char *controllers) {
  for (const char *at = controllers; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
    if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) return true;
  return false;
}

/*
 * Lines are "number:controllers:path"; a line without controllers is that of the unified hierarchy.
 */
static bool in_root_cpu_group(void) {
  char text[4096], *unified = NULL, *rest = NULL;
  text_of("/proc/self/cgroup", text, sizeof text);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *controllers++ = *path++ = '\0';
    if (names_cpu(controllers)) return strcmp(path, "/") == 0;
    if (controllers[0] == '\0') unified = path;
  }
  return !unified || !has_shares(unified);
}

static bool is_alone_in_its_group(void) {
  char text[8];
  const pid_t process = getpid();
  return process != split_process.began && getsid(0) == process &&
         text_of("/proc/sys/kernel/sched_autogroup_enabled", text, sizeof text)[0] == '1' &&
         in_root_cpu_group();
}

uint32_t split_background_lacks(const struct split_attributes *own) {
  if (!may_return(own->nice)) return SPLIT_WITHOUT_BACKGROUND_RIGHTS;
  return is_alone_in_its_group() ? SPLIT_WITHOUT_BACKGROUND_EFFECT : 0;
}
