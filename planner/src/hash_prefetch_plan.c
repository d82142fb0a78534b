#include "buffer.h"
const char *prefetch_refusal(const Plan *parent, ChildRole role, const Plan *child,
                                    BufferPlace *place) { return "not yet"; }
