#include "writes.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/MemoryBuiltins.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace p3l {

// Follows casts too: a program that casts the qualifier away in the same function still writes to a
// persistent object.
static bool isQualified(const Value *address) {
  for (unsigned depth = 0; depth < 16; ++depth) {
    if (address->getType()->getPointerAddressSpace() == kAddressSpace) return true;
    if (auto *step = dyn_cast<GEPOperator>(address))
      address = step->getPointerOperand();
    else if (auto *cast = dyn_cast<AddrSpaceCastOperator>(address))
      address = cast->getPointerOperand();
    else
      return false;
  }
  return false;
}

// Whether the memory cannot belong to a store: the stack, the program's variables, malloc's blocks.
static bool isElsewhere(const Value *address, const TargetLibraryInfo &library) {
  SmallVector<const Value *, 4> objects;
  getUnderlyingObjects(address, objects);
  for (const Value *object : objects) {
    if (isa<AllocaInst>(object) || isa<GlobalValue>(object)) continue;
    if (auto *argument = dyn_cast<Argument>(object))
      if (argument->hasByValAttr()) continue;
    if (isAllocationFn(object, &library)) continue;
    return false;
  }
  return true;
}

static bool mayBePersistent(const Value *address, const TargetLibraryInfo &library) {
  unsigned space = address->getType()->getPointerAddressSpace();
  if (space != 0 && space != kAddressSpace) return false;  // thread-local segments
  if (mode() == Mode::Qualified && !isQualified(address)) return false;
  return !isElsewhere(address, library);
}

// Functions of the C library that write where their first argument points. The library was compiled
// without the plugin, and these are what programs fill their objects with.
static bool findLibraryWrite(CallBase &call, Write &write) {
  const Function *callee = call.getCalledFunction();
  if (!callee || !callee->isDeclaration() || !callee->hasName()) return false;
  StringRef name = callee->getName();
  if (name.consume_front("__") && !name.consume_back("_chk")) return false;  // _FORTIFY_SOURCE's
  if (name.starts_with("isoc99_")) return false;
  struct Shape {
    Write::Length kind;
    int address, length, factor;
  };
  constexpr Shape kNone{Write::Constant, -1, -1, -1};
  Shape shape = StringSwitch<Shape>(name)
                    .Cases("memcpy", "memmove", "memset", "mempcpy", Shape{Write::Given, 0, 2, -1})
                    .Cases("strncpy", "stpncpy", Shape{Write::Given, 0, 2, -1})
                    .Cases("snprintf", "vsnprintf", "fgets", Shape{Write::Given, 0, 1, -1})
                    .Case("strftime", Shape{Write::Given, 0, 1, -1})
                    .Cases("read", "pread", "pread64", "recv", Shape{Write::Given, 1, 2, -1})
                    .Cases("fread", "fread_unlocked", Shape{Write::Product, 0, 1, 2})
                    .Case("qsort", Shape{Write::Product, 0, 1, 2})
                    .Cases("strcpy", "stpcpy", Shape{Write::String, 0, 1, -1})
                    .Cases("strcat", "strncat", Shape{Write::Appended, 0, 1, -1})
                    .Default(kNone);
  if (shape.address < 0) return false;
  unsigned last = std::max({shape.address, shape.length, shape.factor});
  if (call.arg_size() <= last) return false;
  write.address = call.getArgOperand(shape.address);
  write.kind = shape.kind;
  write.length = call.getArgOperand(shape.length);
  if (shape.factor >= 0) write.factor = call.getArgOperand(shape.factor);
  return write.address->getType()->isPointerTy();
}

// Adds one lane of a vector that is written under a mask: the mark must not touch the addresses of
// the other lanes.
static void addLane(Instruction &store, Value *mask, Value *address, unsigned lane, Type *type,
                    SmallVectorImpl<Write> &writes) {
  IRBuilder<> builder(&store);
  Instruction *end =
      SplitBlockAndInsertIfThen(builder.CreateExtractElement(mask, lane), &store, false);
  writes.push_back({end, address, Write::Constant,
                    store.getModule()->getDataLayout().getTypeStoreSize(type).getFixedValue()});
}

static void addMasked(IntrinsicInst &store, const TargetLibraryInfo &library,
                      SmallVectorImpl<Write> &writes) {
  bool scatter = store.getIntrinsicID() == Intrinsic::masked_scatter;
  auto *type = dyn_cast<FixedVectorType>(store.getArgOperand(0)->getType());
  Value *to = store.getArgOperand(1), *mask = store.getArgOperand(3);
  if (!scatter && !mayBePersistent(to, library)) return;
  if (scatter && mode() == Mode::Qualified &&
      to->getType()->getScalarType()->getPointerAddressSpace() != kAddressSpace)
    return;
  if (!type) return complain(store, "a scalable vector store cannot be marked");
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    IRBuilder<> builder(&store);
    Value *address = scatter ? builder.CreateExtractElement(to, lane)
                             : builder.CreateConstGEP1_64(type->getElementType(), to, lane);
    addLane(store, mask, address, lane, type->getElementType(), writes);
  }
}

void findWrites(Instruction &instruction, const TargetLibraryInfo &library,
                SmallVectorImpl<Write> &writes) {
  if (instruction.hasMetadata(LLVMContext::MD_nosanitize)) return;  // a sanitizer's own
  const DataLayout &layout = instruction.getModule()->getDataLayout();
  Write write{&instruction, nullptr};
  auto ofType = [&](Value *address, Type *type, Align alignment) {
    write.address = address;
    write.bytes = layout.getTypeStoreSize(type).getKnownMinValue();
    write.alignment = alignment;
  };
  if (auto *store = dyn_cast<StoreInst>(&instruction)) {
    ofType(store->getPointerOperand(), store->getValueOperand()->getType(), store->getAlign());
  } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
    ofType(exchange->getPointerOperand(), exchange->getNewValOperand()->getType(),
           exchange->getAlign());
  } else if (auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
    ofType(update->getPointerOperand(), update->getValOperand()->getType(), update->getAlign());
  } else if (auto *memory = dyn_cast<AnyMemIntrinsic>(&instruction)) {
    write.address = memory->getRawDest();
    write.length = memory->getLength();
    write.kind = Write::Given;
    if (auto *constant = dyn_cast<ConstantInt>(write.length)) {
      write.kind = Write::Constant;
      write.bytes = constant->getZExtValue();
      if (write.bytes == 0) return;
    }
  } else if (auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction)) {
    if (intrinsic->getIntrinsicID() == Intrinsic::masked_store ||
        intrinsic->getIntrinsicID() == Intrinsic::masked_scatter)
      addMasked(*intrinsic, library, writes);
    return;
  } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
    if (!findLibraryWrite(*call, write)) return;
  } else {
    return;
  }
  if (mayBePersistent(write.address, library)) writes.push_back(write);
}

bool endsMarks(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  if (!call || isCheck(call) || isHeal(call)) return false;
  if (isa<IntrinsicInst>(call)) return false;
  return !call->onlyReadsMemory();
}

}  // namespace p3l
