#include "buffer.h"
bool aggregates_ignore_order(const Agg *agg) { return false; }
const char *key_order_refusal(const PlanFacts *facts, const Plan *parent, ChildRole role,
                                     const Plan *child, PlanPosition position, BufferPlace *place) { return "not yet"; }
