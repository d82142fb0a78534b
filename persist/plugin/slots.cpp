// Determines which loads cannot return a surrogate.
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Operator.h"
#include "p3l_plugin.h"

using namespace llvm;

namespace p3l {

bool PrivateVariables::contains(const Value *slot) {
  // Nothing is optimised yet, so a variable is reached through casts and GEPs only.
  const Value *object = slot;
  for (;;) {
    object = object->stripPointerCasts();
    auto *step = dyn_cast<GEPOperator>(object);
    if (!step) break;
    object = step->getPointerOperand();
  }
  auto *global = dyn_cast<GlobalVariable>(object);
  bool candidate = isa<AllocaInst>(object) || (global && global->hasLocalLinkage());
  if (!candidate) return false;
  auto found = known_.find(object);
  if (found != known_.end()) return found->second;
  return known_[object] = examine(object);
}

// Stored into a private variable: a pointer that was in a register (invariant 1), or a constant.
static bool storesPointer(const StoreInst &store) {
  const Value *value = store.getValueOperand();
  return isSlotPointer(value->getType()) || isa<Constant>(value);
}

bool PrivateVariables::examine(const Value *object) const {
  SmallVector<const Value *, 8> addresses{object};
  while (!addresses.empty()) {
    const Value *address = addresses.pop_back_val();
    for (const Use &use : address->uses()) {
      const User *user = use.getUser();
      if (isa<GEPOperator>(user) || isa<BitCastOperator>(user) ||
          isa<AddrSpaceCastOperator>(user)) {
        if (use.getOperandNo() != 0) return false;
        addresses.push_back(user);
      } else if (isa<LoadInst>(user) || isa<ICmpInst>(user)) {
        continue;
      } else if (auto *store = dyn_cast<StoreInst>(user)) {
        if (store->getPointerOperand() != address || store->getValueOperand() == address)
          return false;
        if (!storesPointer(*store)) return false;
      } else if (auto *intrinsic = dyn_cast<IntrinsicInst>(user)) {
        // A copy out of the variable is harmless; a copy into it may bring surrogates.
        if (intrinsic->isLifetimeStartOrEnd() || isa<DbgInfoIntrinsic>(intrinsic)) continue;
        if (isa<MemSetInst>(intrinsic) && use.getOperandNo() == 0) continue;
        if (isa<MemTransferInst>(intrinsic) && use.getOperandNo() == 1) continue;
        return false;
      } else {
        return false;  // its address escapes
      }
    }
  }
  return true;
}

static bool isVirtualTable(const LoadInst &load) {
  if (MDNode *alias = load.getMetadata(LLVMContext::MD_tbaa)) return alias->isTBAAVtableAccess();
  return false;
}

bool isExempt(const LoadInst &load) {
  const Value *object = getUnderlyingObject(load.getPointerOperand());
  if (auto *global = dyn_cast<GlobalVariable>(object)) {
    if (global->isConstant() || global->getName() == "p3l_persistent_memory") return true;
  }
  if (load.getType()->getPointerAddressSpace() == kAddressSpace) return false;
  if (isVirtualTable(load)) return true;
  if (auto *table = dyn_cast<LoadInst>(object))
    if (isVirtualTable(*table)) return true;
  // A persistent slot never holds the address of a function: commit refuses pointers to anything
  // that is not an object.
  if (load.use_empty()) return false;
  for (const Use &use : load.uses()) {
    auto *call = dyn_cast<CallBase>(use.getUser());
    if (!call || !call->isCallee(&use)) return false;
  }
  return true;
}

}  // namespace p3l
