// Ties a check to every value that may be a surrogate, before anything was optimised.
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Operator.h"
#include "p3l_plugin.h"

using namespace llvm;

namespace p3l {

// Replaces all uses of `value` by the check's result.
static void check(Instruction *value, Value *slot) {
  IRBuilder<> builder(value->getParent(), std::next(value->getIterator()));
  builder.SetCurrentDebugLocation(value->getDebugLoc());
  CallInst *checked = createCheck(builder, value, slot);
  value->replaceUsesWithIf(checked, [&](Use &use) { return use.getUser() != checked; });
}

// A local variable is not healed, so that its address does not escape: LLVM keeps it in a register.
static Value *slotOf(Value *pointer) {
  Value *object = pointer;
  while (auto *step = dyn_cast<GEPOperator>(object->stripPointerCasts()))
    object = step->getPointerOperand();
  if (!isa<AllocaInst>(object->stripPointerCasts())) return pointer;
  return ConstantPointerNull::get(cast<PointerType>(pointer->getType()));
}

// A whole struct in registers: each pointer in it is extracted, checked, and inserted.
static Value *checkParts(IRBuilder<> &builder, Value *whole, Type *type,
                         SmallVectorImpl<unsigned> &path, Value *result) {
  Value *nowhere = ConstantPointerNull::get(PointerType::get(whole->getContext(), 0));
  if (isSlotPointer(type)) {
    Value *part = builder.CreateExtractValue(whole, path);
    return builder.CreateInsertValue(result, createCheck(builder, part, nowhere), path);
  }
  if (type->isVectorTy()) return result;  // C has no structs of vectors of pointers
  unsigned parts = isa<StructType>(type)  ? type->getStructNumElements()
                   : isa<ArrayType>(type) ? type->getArrayNumElements()
                                          : 0;
  for (unsigned i = 0; i < parts; ++i) {
    Type *part =
        isa<StructType>(type) ? type->getStructElementType(i) : type->getArrayElementType();
    if (!hasSlotPointer(part)) continue;
    path.push_back(i);
    result = checkParts(builder, whole, part, path, result);
    path.pop_back();
  }
  return result;
}

static void checkAggregate(LoadInst *load) {
  IRBuilder<> builder(load->getParent(), std::next(load->getIterator()));
  builder.SetCurrentDebugLocation(load->getDebugLoc());
  // The users before this point: those made here come after the list was taken.
  SmallVector<Use *, 8> uses;
  for (Use &use : load->uses()) uses.push_back(&use);
  SmallVector<unsigned, 4> path;
  Value *checked = checkParts(builder, load, load->getType(), path, load);
  for (Use *use : uses) use->set(checked);
}

static void checkVector(LoadInst *load) {
  auto *type = dyn_cast<FixedVectorType>(load->getType());
  if (!type) return complain(*load, "a scalable vector of persistent pointers cannot be checked");
  IRBuilder<> builder(load->getParent(), std::next(load->getIterator()));
  builder.SetCurrentDebugLocation(load->getDebugLoc());
  SmallVector<Use *, 8> uses;
  for (Use &use : load->uses()) uses.push_back(&use);
  Value *nowhere = ConstantPointerNull::get(PointerType::get(load->getContext(), 0));
  Value *checked = load;
  for (unsigned i = 0; i < type->getNumElements(); ++i) {
    Value *part = builder.CreateExtractElement(load, i);
    checked = builder.CreateInsertElement(checked, createCheck(builder, part, nowhere), i);
  }
  for (Use *use : uses) use->set(checked);
}

// C's atomics on pointers arrive as integers of the same size, through a local of the pointer's
// type. The value that a compare-and-exchange finds in the slot must equal the program's register.
static bool exchangesPointer(const AtomicCmpXchgInst &exchange) {
  for (const Value *operand : {exchange.getCompareOperand(), exchange.getNewValOperand()}) {
    if (isSlotPointer(operand->getType())) return true;
    if (auto *cast = dyn_cast<PtrToIntOperator>(operand))
      if (isSlotPointer(cast->getPointerOperand()->getType())) return true;
    auto *load = dyn_cast<LoadInst>(operand);
    auto *local =
        load ? dyn_cast<AllocaInst>(load->getPointerOperand()->stripPointerCasts()) : nullptr;
    if (local && isSlotPointer(local->getAllocatedType())) return true;
  }
  return false;
}

// An integer derived from a pointer: p + 1 by way of uintptr_t, alignment.
static bool comesFromPointer(const Value *integer, unsigned depth = 0) {
  if (isa<Constant>(integer)) return true;
  if (auto *cast = dyn_cast<PtrToIntInst>(integer))
    return isSlotPointer(cast->getPointerOperand()->getType());
  auto *operation = dyn_cast<BinaryOperator>(integer);
  return operation && depth < 4 && comesFromPointer(operation->getOperand(0), depth + 1) &&
         comesFromPointer(operation->getOperand(1), depth + 1);
}

static void markFunction(Function &function, PrivateVariables &variables) {
  Value *nowhere = ConstantPointerNull::get(PointerType::get(function.getContext(), 0));
  SmallVector<Instruction *, 64> instructions;
  for (Instruction &instruction : llvm::instructions(function))
    instructions.push_back(&instruction);
  for (Instruction *instruction : instructions) {
    Type *type = instruction->getType();
    if (auto *load = dyn_cast<LoadInst>(instruction)) {
      if (!hasSlotPointer(type) || variables.contains(load->getPointerOperand())) continue;
      if (type->isVectorTy())
        checkVector(load);
      else if (!type->isPointerTy())
        checkAggregate(load);
      else if (!isExempt(*load))
        check(load, slotOf(load->getPointerOperand()));
    } else if (auto *cast = dyn_cast<IntToPtrInst>(instruction)) {
      if (isSlotPointer(type) && !comesFromPointer(cast->getOperand(0))) check(cast, nowhere);
    } else if (auto *cast = dyn_cast<AddrSpaceCastInst>(instruction)) {
      // A plain pointer that becomes a persistent one: not checked before.
      if (mode() == Mode::Qualified && isSlotPointer(type) &&
          !isSlotPointer(cast->getOperand(0)->getType()) &&
          !isa<AllocaInst>(cast->getOperand(0)->stripPointerCasts()))
        check(cast, nowhere);
    } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(instruction)) {
      if (!exchangesPointer(*exchange)) continue;
      IRBuilder<> builder(exchange);
      createHeal(builder, exchange->getPointerOperand());
    }
  }
}

PreservedAnalyses MarkLoads::run(Module &module, ModuleAnalysisManager &) {
  PrivateVariables variables;
  for (Function &function : module) {
    // Marked: IR of an earlier run of the plugin, compiled again.
    if (function.isDeclaration() || function.hasFnAttribute("p3l-marked") ||
        function.hasFnAttribute(Attribute::Naked) || isUnchecked(function))
      continue;
    markFunction(function, variables);
    function.addFnAttr("p3l-marked");
  }
  return PreservedAnalyses::none();
}

}  // namespace p3l
