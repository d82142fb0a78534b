/*
 * One budget of pins for all nodes of a backend.
 */
#include "pin_budget.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"

static int holders_of_shared;
static int holders_of_local;

static int *holders(bool local) { return local ? &holders_of_local : &holders_of_shared; }

static void leave(void *holder) { --*holders(((PinHolder *)holder)->local); }

void pin_budget_join(PinHolder *holder, bool local) {
  holder->local = local;
  holder->end = (MemoryContextCallback){.func = leave, .arg = holder};
  MemoryContextRegisterResetCallback(CurrentMemoryContext, &holder->end);
  ++*holders(local);
}

/*
 * Local buffers are allocated when the first one is used; until then their number is that of the
 * setting.
 */
static int local_buffers(void) { return NLocBuffer > 0 ? NLocBuffer : num_temp_buffers; }

int pin_budget_limit(const PinHolder *holder, int most) {
  int budget = holder->local ? local_buffers() / 4 : NBuffers / (2 * Max(MaxBackends, 1));
  /* A single holder leaves half of the budget to later ones. */
  return Max(1, Min(most, budget / Max(*holders(holder->local), 2)));
}
