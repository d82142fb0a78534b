// Inserts a mark before writes to persistent memory (p3l_access.h, p3l_dirty):
//
//     offset = address - p3l_persistent_memory.base
//     if (offset < p3l_persistent_memory.bytes)            not taken for other memory
//       if (any card of it is not marked)   [cold]  __p3l_will_write(address, bytes)
//
// Writes to one object at constant offsets of each other, with no call between that could end the
// transaction, share one mark over all their bytes. The bytes in between belong to the same object:
// the offsets are inbounds of one.
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "writes.h"
#if LLVM_VERSION_MAJOR >= 17
#include "llvm/TargetParser/Triple.h"
#else
#include "llvm/ADT/Triple.h"
#endif

using namespace llvm;

namespace p3l {
namespace {

// Beyond this distance, writes have marks of their own rather than one wider than a card.
constexpr int64_t kWidestGroup = 256;

struct Group {
  Write write;  // the first one; of constant length: [low, high) relative to `base`
  Value *base;
  int64_t low = 0, high = 0;
  Align alignment{1};  // of base + low
  bool covered = false;
  bool constant() const { return write.kind == Write::Constant; }
  bool covers(const Group &other) const {
    return base == other.base && low <= other.low && high >= other.high;
  }
};

Group groupOf(const Write &write, const DataLayout &layout) {
  Group group{write, write.address};
  if (!group.constant()) return group;
  APInt offset(64, 0);
  group.base = write.address->stripAndAccumulateConstantOffsets(layout, offset,
                                                                /*AllowNonInbounds=*/false);
  group.low = offset.getSExtValue();
  group.high = group.low + static_cast<int64_t>(write.bytes);
  group.alignment = write.alignment;
  return group;
}

bool join(Group &group, const Group &other) {
  if (!group.constant() || !other.constant() || group.base != other.base) return false;
  int64_t low = std::min(group.low, other.low), high = std::max(group.high, other.high);
  if (high - low > kWidestGroup) return group.covers(other);
  if (other.low < group.low) group.alignment = other.alignment;
  group.low = low;
  group.high = high;
  return true;
}

class Marker {
 public:
  Marker(Function &function, const TargetLibraryInfo &library)
      : function_(function), library_(library), layout_(function.getParent()->getDataLayout()) {}
  void run();

 private:
  void collect();
  void cover();
  bool emitRare(const Group &group);
  void emit(const Group &group);
  Value *startOf(const Group &group, IRBuilder<> &builder);
  Value *lengthOf(const Group &group, IRBuilder<> &builder);
  Value *memory(IRBuilder<> &builder, unsigned field);

  Function &function_;
  const TargetLibraryInfo &library_;
  const DataLayout &layout_;
  SmallVector<Group, 32> groups_;
  struct Block {
    SmallVector<unsigned, 4> before;  // groups before the first call that ends marks
    SmallVector<unsigned, 4> after;   // groups still marked at its end
    bool ends = false;
    BitVector in, out;
  };
  DenseMap<const BasicBlock *, Block> blocks_;
};

void Marker::collect() {
  // Lanes of vectors split blocks, so the list of instructions comes first.
  SmallVector<Instruction *, 64> instructions;
  for (BasicBlock &block : function_)
    for (Instruction &instruction : block) instructions.push_back(&instruction);
  DenseMap<const Instruction *, SmallVector<Write, 1>> writes;
  for (Instruction *instruction : instructions) {
    SmallVector<Write, 8> found;
    findWrites(*instruction, library_, found);
    for (const Write &write : found) writes[write.before].push_back(write);
  }
  for (BasicBlock &block : function_) {
    Block &entry = blocks_[&block];
    SmallVector<unsigned, 4> open;
    for (Instruction &instruction : block) {
      auto found = writes.find(&instruction);
      if (found != writes.end()) {
        for (const Write &write : found->second) {
          Group group = groupOf(write, layout_);
          bool joined = false;
          for (unsigned i : open) joined = joined || join(groups_[i], group);
          if (joined) continue;
          if (group.constant()) {
            open.push_back(groups_.size());
            if (!entry.ends) entry.before.push_back(groups_.size());
          }
          groups_.push_back(group);
        }
      }
      if (endsMarks(instruction)) {
        open.clear();
        entry.ends = true;
      }
    }
    entry.after = open;
  }
}

// A mark is redundant if the same or a wider one was made on every path since the last call:
// forward dataflow over the groups with intersection. A removed group is covered by remaining ones,
// since the first on each path has none before it.
void Marker::cover() {
  if (groups_.size() < 2 || groups_.size() > 2000) return;
  ReversePostOrderTraversal<Function *> order(&function_);
  for (auto &[block, entry] : blocks_) {
    entry.in = BitVector(groups_.size(), block != &function_.getEntryBlock());
    entry.out = BitVector(groups_.size(), true);
  }
  // A value of the loop's previous iteration is another one: its marks do not count.
  DenseMap<const BasicBlock *, BitVector> redefined;
  for (unsigned i = 0; i < groups_.size(); ++i) {
    if (auto *definition = dyn_cast<Instruction>(groups_[i].base)) {
      BitVector &bits = redefined[definition->getParent()];
      bits.resize(groups_.size());
      bits.set(i);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (BasicBlock *block : order) {
      Block &entry = blocks_[block];
      for (BasicBlock *before : predecessors(block))
        if (blocks_.count(before)) entry.in &= blocks_[before].out;
      auto found = redefined.find(block);
      if (found != redefined.end()) entry.in.reset(found->second);
      BitVector out(groups_.size(), false);
      if (!entry.ends) out = entry.in;
      for (unsigned i : entry.after)
        for (unsigned j = 0; j < groups_.size(); ++j)
          if (groups_[j].constant() && groups_[i].covers(groups_[j])) out.set(j);
      if (out != entry.out) {
        entry.out = out;
        changed = true;
      }
    }
  }
  for (auto &[block, entry] : blocks_)
    for (unsigned i : entry.before)
      if (entry.in.test(i)) groups_[i].covered = true;
}

Value *Marker::memory(IRBuilder<> &builder, unsigned field) {
  Module &module = *function_.getParent();
  StructType *type =
      StructType::get(builder.getInt64Ty(), builder.getInt64Ty(), builder.getPtrTy());
  auto *variable = cast<GlobalVariable>(module.getOrInsertGlobal("p3l_persistent_memory", type));
  // It is in the program's own libp3l.a: no access through the global offset table except in shared
  // objects.
  if (module.getPICLevel() == PICLevel::NotPIC || module.getPIELevel() != PIELevel::Default)
    variable->setDSOLocal(true);
  return builder.CreateLoad(type->getElementType(field),
                            builder.CreateStructGEP(type, variable, field));
}

Value *Marker::startOf(const Group &group, IRBuilder<> &builder) {
  Value *start = builder.CreateAddrSpaceCast(group.base, builder.getPtrTy());
  if (group.constant() && group.low != 0)
    start = builder.CreateGEP(builder.getInt8Ty(), start, builder.getInt64(group.low));
  return start;
}

Value *Marker::lengthOf(const Group &group, IRBuilder<> &builder) {
  const Write &write = group.write;
  Type *size = builder.getInt64Ty();
  auto stringLength = [&](Value *string) {
    FunctionCallee strlen = function_.getParent()->getOrInsertFunction(
        "strlen", FunctionType::get(size, {builder.getPtrTy()}, false));
    return builder.CreateCall(strlen, {string});
  };
  switch (write.kind) {
    case Write::Constant: return builder.getInt64(group.high - group.low);
    case Write::Given: return builder.CreateZExtOrTrunc(write.length, size);
    case Write::Product:
      return builder.CreateMul(builder.CreateZExtOrTrunc(write.length, size),
                               builder.CreateZExtOrTrunc(write.factor, size));
    case Write::String: return builder.CreateAdd(stringLength(write.length), builder.getInt64(1));
    case Write::Appended: {
      Value *both = builder.CreateAdd(stringLength(write.address), stringLength(write.length));
      return builder.CreateAdd(both, builder.getInt64(1));
    }
  }
  llvm_unreachable("a length of another kind");
}

// The mark of orthogonal mode, for memory that is rarely persistent. On x86-64 Linux a program's
// own memory is at addresses with bit 46 set, and the library reserves its range below that
// (segment.h): two instructions, no memory operand. __p3l_mark (swizzle_entry.S) handles other
// memory below 2^46. TSan allows no memory there, so a library built with it uses another place,
// and the exact test.
bool Marker::emitRare(const Group &group) {
  const Module &module = *function_.getParent();
  if (mode() != Mode::Orthogonal || function_.hasFnAttribute(Attribute::SanitizeThread) ||
      Triple(module.getTargetTriple()).getArch() != Triple::x86_64)
    return false;
  Instruction *where = group.write.before;
  IRBuilder<> builder(where);
  builder.SetCurrentDebugLocation(where->getDebugLoc());
  Value *bit = builder.CreateAnd(builder.CreatePtrToInt(group.base, builder.getInt64Ty()),
                                 builder.getInt64(UINT64_C(1) << 46));
  Value *low = builder.CreateICmpEQ(bit, builder.getInt64(0), "may_be_persistent");
  MDNode *weights = MDBuilder(where->getContext()).createBranchWeights(1, 1 << 20);
  builder.SetInsertPoint(SplitBlockAndInsertIfThen(low, where, false, weights));
  builder.SetCurrentDebugLocation(where->getDebugLoc());
  Value *start = startOf(group, builder);
  callRuntime(builder, "p3l_mark", builder.getVoidTy(), {start, lengthOf(group, builder)});
  return true;
}

void Marker::emit(const Group &group) {
  if (emitRare(group)) return;
  Instruction *where = group.write.before;
  MDBuilder metadata(where->getContext());
  bool rare = mode() == Mode::Orthogonal;
  MDNode *weights = metadata.createBranchWeights(rare ? 1 : 1000, rare ? 1000 : 1);
  IRBuilder<> builder(where);
  builder.SetCurrentDebugLocation(group.write.before->getDebugLoc());
  Value *start = startOf(group, builder);
  Value *offset =
      builder.CreateSub(builder.CreatePtrToInt(start, builder.getInt64Ty()), memory(builder, 0));
  Value *within = builder.CreateICmpULT(offset, memory(builder, 1), "is_persistent");
  Instruction *end = SplitBlockAndInsertIfThen(within, where, false, weights);

  builder.SetInsertPoint(end);
  Value *length = lengthOf(group, builder);
  Value *needed;
  if (group.constant()) {
    Value *first = builder.CreateLShr(offset, 10);
    Value *card = builder.CreateGEP(builder.getInt8Ty(), memory(builder, 2), first);
    needed =
        builder.CreateICmpEQ(builder.CreateLoad(builder.getInt8Ty(), card), builder.getInt8(0));
    uint64_t bytes = group.high - group.low;
    if (group.alignment.value() < bytes || group.alignment.value() > 1024) {
      Value *final = builder.CreateAdd(offset, builder.getInt64(bytes - 1));
      Value *several = builder.CreateICmpNE(first, builder.CreateLShr(final, 10));
      needed = builder.CreateOr(needed, several);
    }
  } else {
    needed = builder.CreateICmpNE(length, builder.getInt64(0));
  }
  Instruction *slow =
      SplitBlockAndInsertIfThen(needed, end, false, metadata.createBranchWeights(1, 1000));
  builder.SetInsertPoint(slow);
  callRuntime(builder, "p3l_will_write", builder.getVoidTy(), {start, length});
}

void Marker::run() {
  collect();
  cover();
  for (const Group &group : groups_)
    if (!group.covered) emit(group);
  if (!groups_.empty()) moveSlowPathsAway(function_);
}

}  // namespace

PreservedAnalyses MarkWrites::run(Module &module, ModuleAnalysisManager &analyses) {
  auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
  for (Function &function : module) {
    if (function.isDeclaration() || function.hasFnAttribute("p3l-writes-marked") ||
        function.hasFnAttribute(Attribute::Naked) || isUnchecked(function))
      continue;
    Marker(function, functions.getResult<TargetLibraryAnalysis>(function)).run();
    function.addFnAttr("p3l-writes-marked");
  }
  return PreservedAnalyses::none();
}

}  // namespace p3l
