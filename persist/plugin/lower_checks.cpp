// Lowers the checks of mark_loads to code, at the end of the pipeline.
//
//     value = load slot                      value = load slot
//     checked = check(value, slot)    ─>     if (value < 0)  [cold]  found = __p3l_swizzle_value(value, slot)
//                                            checked = phi(value, found)
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "p3l_plugin.h"

using namespace llvm;

namespace p3l {

// Whether the optimiser has determined that the value was in a register (invariant 1): a local
// variable whose address escaped at first, and no longer after inlining. Arguments and results of
// internal functions do not count: LLVM moves loads across their calls.
static bool isSwizzled(const Value *value) {
  SmallPtrSet<const Value *, 8> seen;
  SmallVector<const Value *, 8> left{value};
  while (!left.empty()) {
    value = left.pop_back_val();
    if (!seen.insert(value).second) continue;
    if (seen.size() > 16) return false;
    if (isa<Constant>(value) || isa<AllocaInst>(value) || isCheck(value)) continue;
    if (auto *argument = dyn_cast<Argument>(value)) {
      if (argument->getParent()->hasLocalLinkage()) return false;
    } else if (auto *call = dyn_cast<CallBase>(value)) {
      const Function *callee = call->getCalledFunction();
      if (!callee || callee->isIntrinsic() || callee->hasLocalLinkage()) return false;
    } else if (isa<GetElementPtrInst>(value) || isa<FreezeInst>(value)) {
      left.push_back(cast<Instruction>(value)->getOperand(0));
    } else if (auto *cast = dyn_cast<AddrSpaceCastInst>(value)) {
      // Unknown for a plain pointer.
      if (!isSlotPointer(cast->getOperand(0)->getType())) return false;
      left.push_back(cast->getOperand(0));
    } else if (auto *phi = dyn_cast<PHINode>(value)) {
      for (const Value *incoming : phi->incoming_values()) left.push_back(incoming);
    } else if (auto *select = dyn_cast<SelectInst>(value)) {
      left.push_back(select->getTrueValue());
      left.push_back(select->getFalseValue());
    } else {
      return false;
    }
  }
  return true;
}

static Value *plain(IRBuilder<> &builder, Value *pointer) {
  return builder.CreateAddrSpaceCast(pointer, PointerType::get(pointer->getContext(), 0));
}

// The slot that the value was loaded from, if known by now: atomics and copied structs pass through
// registers. Locals are left alone, as in mark_loads.
static Value *findSlot(Value *value, Value *slot) {
  if (!isa<ConstantPointerNull>(slot)) return slot;
  if (auto *cast = dyn_cast<IntToPtrInst>(value)) value = cast->getOperand(0);
  auto *load = dyn_cast<LoadInst>(value);
  if (!load || isa<AllocaInst>(getUnderlyingObject(load->getPointerOperand()))) return slot;
  TypeSize bits = load->getModule()->getDataLayout().getTypeSizeInBits(load->getType());
  return bits == 64 ? load->getPointerOperand() : slot;
}

// Branches to a new cold block before `where` if `value` is a surrogate; returns the end of that
// block.
static Instruction *insertSlowPath(Value *value, Instruction *where) {
  IRBuilder<> builder(where);
  Value *bits = builder.CreatePtrToInt(value, builder.getInt64Ty());
  Value *negative = builder.CreateICmpSLT(bits, builder.getInt64(0), "is_surrogate");
  MDNode *weights = MDBuilder(where->getContext()).createBranchWeights(1, 1 << 20);
  return SplitBlockAndInsertIfThen(negative, where, /*Unreachable=*/false, weights);
}

static void lowerCheck(CallInst *check) {
  Value *value = check->getArgOperand(0), *slot = findSlot(value, check->getArgOperand(1));
  BasicBlock *fast = check->getParent();
  Instruction *end = insertSlowPath(value, check);
  IRBuilder<> builder(end);
  builder.SetCurrentDebugLocation(check->getDebugLoc());
  Value *found = callSwizzle(builder, plain(builder, slot), plain(builder, value));
  found = builder.CreateAddrSpaceCast(found, value->getType());
  PHINode *result = PHINode::Create(value->getType(), 2, "swizzled", check);
  result->addIncoming(value, fast);
  result->addIncoming(found, end->getParent());
  check->replaceAllUsesWith(result);
  check->eraseFromParent();
}

static void lowerHeal(CallInst *heal) {
  Value *slot = heal->getArgOperand(0);
  IRBuilder<> builder(heal);
  builder.SetCurrentDebugLocation(heal->getDebugLoc());
  LoadInst *value = builder.CreateAlignedLoad(builder.getPtrTy(), slot, Align(8));
  value->setAtomic(AtomicOrdering::Monotonic);
  Instruction *end = insertSlowPath(value, heal);
  builder.SetInsertPoint(end);
  callSwizzle(builder, plain(builder, slot), value);
  heal->eraseFromParent();
}

// Addresses without persistent objects: null, a variable, a function. No surrogate is equal to them
// or becomes one.
static bool isNoObject(const Value *value) {
  value = value->stripInBoundsConstantOffsets();
  return isa<ConstantPointerNull>(value) || isa<GlobalObject>(value) || isa<AllocaInst>(value);
}

// Uses without a check: a test for null or another address that no object has; a call of the
// pointer (see isExempt), although it went through a variable.
static bool isUncheckedUse(const Use &use) {
  if (auto *test = dyn_cast<ICmpInst>(use.getUser()))
    return test->isEquality() && isNoObject(test->getOperand(1 - use.getOperandNo()));
  auto *call = dyn_cast<CallBase>(use.getUser());
  return call && call->isCallee(&use) && use->getType()->getPointerAddressSpace() != kAddressSpace;
}

static void useUnchecked(CallInst *check) {
  for (Use &use : make_early_inc_range(check->uses()))
    if (isUncheckedUse(use)) use.set(check->getArgOperand(0));
}

// Removes needless checks, all of them before any is lowered: a check marks its value as checked.
// Such a check is a copy, so its information about others stays true.
static void dropNeedless(SmallVectorImpl<CallInst *> &checks) {
  SmallVector<bool, 32> needless;
  for (CallInst *check : checks) {
    useUnchecked(check);
    needless.push_back(check->use_empty() || isSwizzled(check->getArgOperand(0)));
  }
  SmallVector<CallInst *, 32> left;
  for (auto [check, drop] : zip(checks, needless)) {
    if (!drop) {
      left.push_back(check);
      continue;
    }
    check->replaceAllUsesWith(check->getArgOperand(0));
    check->eraseFromParent();
  }
  checks = left;
}

// If a pointer is used on only one path, the check moves there. After a test for null it is `test;
// je; js`, with one instruction's flags, instead of `test; js; test; je`.
static bool moveToUse(CallInst *check, DominatorTree &tree) {
  BasicBlock *block = check->getParent();
  Instruction *fork = block->getTerminator();
  if (!isa<BranchInst>(fork) && !isa<SwitchInst>(fork)) return false;
  if (fork->getNumSuccessors() < 2 || check->use_empty()) return false;
  // The slot is healed with the address that it was loaded from: no other code may run in between.
  for (const Instruction *next = check->getNextNode(); next; next = next->getNextNode())
    if (isa<CallBase>(next) && !isa<IntrinsicInst>(next) && !isCheck(next)) return false;
  for (BasicBlock *used : successors(block)) {
    // Several edges to one block dominate nothing.
    BasicBlockEdge way(block, used);
    if (!all_of(check->uses(), [&](const Use &use) { return tree.dominates(way, use); })) continue;
    // A loop's header has two predecessors: the check does not move into a loop.
    if (!used->getSinglePredecessor()) {
      used = SplitEdge(block, used, &tree);
    } else if (any_of(check->users(), [&](const User *user) {
                 return isa<PHINode>(user) && cast<PHINode>(user)->getParent() == used;
               })) {
      return false;  // it would come after its use
    }
    check->moveBefore(&*used->getFirstInsertionPt());
    return true;
  }
  return false;
}

PreservedAnalyses LowerChecks::run(Module &module, ModuleAnalysisManager &analyses) {
  auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
  for (Function &function : module) {
    SmallVector<CallInst *, 32> checks, heals;
    for (Instruction &instruction : instructions(function)) {
      if (isCheck(&instruction)) checks.push_back(cast<CallInst>(&instruction));
      if (isHeal(&instruction)) heals.push_back(cast<CallInst>(&instruction));
    }
    bool none = checks.empty() && heals.empty();
    dropNeedless(checks);
    if (!checks.empty()) {
      DominatorTree &tree = functions.getResult<DominatorTreeAnalysis>(function);
      for (CallInst *check : checks)
        while (moveToUse(check, tree)) {
        }
    }
    for (CallInst *check : checks) lowerCheck(check);
    for (CallInst *heal : heals) lowerHeal(heal);
    if (none) continue;
    moveSlowPathsAway(function);
    // LLVM inferred that the function only reads. Swizzling a slot is not observable, but the slow
    // path takes locks and reads files.
    function.removeFnAttr(Attribute::Memory);
    function.removeFnAttr(Attribute::NoSync);
    function.removeFnAttr(Attribute::NoFree);
    function.removeFnAttr(Attribute::WillReturn);
    function.removeFnAttr(Attribute::NoRecurse);
  }
  return PreservedAnalyses::none();
}

}  // namespace p3l
