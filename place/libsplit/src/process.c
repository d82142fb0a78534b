/* The state of the process, and each thread's pointer to its own. process.h has the invariants. */
#include "process.h"

struct split_process split_process;

_Thread_local struct split_self *split_self_here __attribute__((tls_model("initial-exec")));
