/*
 * One store, two interfaces: C++ reads and changes through pptr what a C program wrote with the
 * macros. Then the C program (test_doors_c, another process) reads the changes.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "p3l.hpp"

#include "test_doors.h"

struct part { /* as in test_doors_c.c, except the pointers */
  std::uint32_t id;
  p3l::pptr<part> to[3];
  char name[12];
  p3l::pptr<part> from;
};
P3L_CLASS(part, part, 1);

static void need(bool truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "test_doors: not so: %s\n", what);
  exit(1);
}

/* Runs the C program, which is in this program's folder. */
static void run_c(const char *verb, const std::string &store) {
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 3);
  need(length > 0, "/proc/self/exe");
  memcpy(self + length, "_c", 3);
  pid_t child = fork();
  need(child >= 0, "fork");
  if (child == 0) {
    execl(self, self, verb, store.c_str(), static_cast<char *>(nullptr));
    perror(self);
    _exit(127);
  }
  int status;
  need(waitpid(child, &status, 0) == child && status == 0, verb);
}

static void read_and_change(const std::string &path) {
  p3l::store store(path);
  part *first = store.root<part>("ring"), *p = first;
  need(first, "a root");
  for (std::uint32_t i = 0; i < PARTS; i++, p = p->to[0]) {
    need(p->id == i && p->name == "part " + std::to_string(i), "id and name");
    for (int k = 0; k < 3; k++) need(p->to[k]->id == (i + STEPS[k]) % PARTS, "its parts");
    need(p->from->to[0] == p, "there and back");
  }
  need(p == first, "a ring");
  /* Every path to a part was followed once: 3 + 1 slots each, none of them twice. */
  need(store.statistics().swizzled == 4 * PARTS, "each slot was swizzled once");

  store.transact([&] {
    for (std::uint32_t i = 0; i < PARTS; i++, p = p->to[0]) p3l::edit(p)->id += 1000000;
    while (p->id != 1000005) p = p->to[0];
    part *spare = store.make_near<part>(p);
    spare->id = SPARE;
    strcpy(spare->name, "spare");
    spare->from = p;
    spare->to[0] = p->to[0];
    p->to[0]->from = spare;
    p->to[0] = spare;
  });
  store.close();
}

int main() {
  char folder[] = "/tmp/p3l-doors-XXXXXX";
  need(mkdtemp(folder), "a folder");
  std::string store = std::string(folder) + "/store";
  run_c("write", store);
  read_and_change(store);
  run_c("read", store);
  need(unlink(store.c_str()) == 0 && unlink((store + "-log").c_str()) == 0 && rmdir(folder) == 0,
       "store and log, nothing else");
  return 0;
}
