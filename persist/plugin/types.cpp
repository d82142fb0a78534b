// Determines the offsets of a type's pointers, for P3L_PERSISTENT (p3l_qualifier.h).
//
// The macro leaves a function that "prints" the type with __builtin_dump_struct, to a callback that
// does not exist: the front end writes down each member's name and type as strings, and takes its
// value or its address, which gives its offset and its type. The pass reads the function and
// deletes it. What the macro declared to be somewhere else, `p3l.fields.NAME`, is made here;
// without the plugin it stays undefined, and the program does not link.
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Operator.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "p3l_plugin.h"

using namespace llvm;

namespace p3l {
namespace {

constexpr char kCallback[] = "p3l_describe_member";
constexpr char kProbe[] = "p3l_probe_of_";
constexpr char kFields[] = "p3l.fields.";
constexpr char kUnions[] = "p3l_unions_of_";  // P3L_PERSISTENT_UNIONS

struct Member {
  std::string name;
  uint64_t offset, bytes;
  uint64_t slots;       // pointers it consists of; 0: none
  bool shared = false;  // a pointer in a union with others, which P3L_PERSISTENT_UNIONS describes
};

class Description {
 public:
  // `unions`: the program describes its unions, and the library checks that none is missing.
  Description(Function &probe, bool unions)
      : probe_(probe), layout_(probe.getParent()->getDataLayout()), unions_(unions) {}
  bool read();
  Constant *fields() const;

 private:
  bool add(CallInst &call);
  bool addRecord(Type *type, uint64_t offset, StringRef name);
  bool addMember(Type *type, StringRef spelling, StringRef name, uint64_t offset);
  bool overlaps();
  bool fail(const Twine &what) const {
    complain(probe_, what);
    return false;
  }

  Function &probe_;
  const DataLayout &layout_;
  const bool unions_;
  std::string type_;                       // as the program calls it
  SmallVector<std::string, 4> enclosing_;  // members whose own members are being described
  SmallVector<Member, 16> members_;
};

// The text of the n-th argument, if it is one.
StringRef text(const CallInst &call, unsigned n) {
  StringRef found;
  if (n >= call.arg_size() || !call.getArgOperand(n)->getType()->isPointerTy()) return {};
  getConstantStringInfo(call.getArgOperand(n), found);
  return found;
}

// A member of function type is not a slot: there is no persistent object that it could point to.
bool pointsToFunction(StringRef spelling) { return spelling.contains("(*"); }

bool Description::add(CallInst &call) {
  // The format is the callback's own argument; indentation, type, name and value follow.
  StringRef format = text(call, 0), spelling = text(call, 2), name = text(call, 3);
  if (format.starts_with("%s%s %s =\n") || format == "%s%s %s =") {
    enclosing_.push_back(name.str());  // a struct or union; its members follow
    return true;
  }
  if (format == "%s}\n") {
    if (!enclosing_.empty()) enclosing_.pop_back();
    return true;
  }
  if (!format.starts_with("%s%s %s")) {
    if (format == "%s" && type_.empty()) type_ = text(call, 1).str();
    return true;
  }
  std::string path;
  for (const std::string &outer : enclosing_) path += outer + ".";
  path += name;
  if (call.arg_size() < 5 || format.contains(" : %zu")) return true;  // bit fields hold no pointers
  Value *value = call.getArgOperand(call.arg_size() - 1);
  // Small integers and floats are widened on their way through `...`.
  while (isa<CastInst>(value) && !isa<AddrSpaceCastInst>(value))
    value = cast<Instruction>(value)->getOperand(0);
  auto *load = dyn_cast<LoadInst>(value);
  Value *address = load ? load->getPointerOperand() : value;
  APInt offset(64, 0);
  address->stripAndAccumulateConstantOffsets(layout_, offset, /*AllowNonInbounds=*/true);
  if (load) return addMember(load->getType(), spelling, path, offset.getZExtValue());
  auto *step = dyn_cast<GEPOperator>(address);
  if (!step) return fail("member " + path + " of " + type_ + " cannot be described");
  return addMember(step->getResultElementType(), spelling, path, offset.getZExtValue());
}

bool Description::addMember(Type *type, StringRef spelling, StringRef name, uint64_t offset) {
  uint64_t elements = 1;
  while (auto *array = dyn_cast<ArrayType>(type)) {
    elements *= array->getNumElements();
    type = array->getElementType();
  }
  uint64_t bytes = layout_.getTypeAllocSize(type);
  if (!hasSlotPointer(type) || (type->isPointerTy() && pointsToFunction(spelling))) {
    if (type->isPointerTy() && !pointsToFunction(spelling))
      warn(probe_, type_ + "::" + name +
                       " is a plain pointer, which is invalid when the store is opened again; "
                       "declare it `persistent`, or describe the type by P3L_TYPE");
    if (elements) members_.push_back({name.str(), offset, bytes * elements, 0});
    return true;
  }
  if (elements == 0)
    return fail(type_ + "::" + name +
                " is an array of pointers without a length; remedy: give it " +
                "one, or make it a type of its own and allocate an array of that");
  if (type->isPointerTy()) {
    members_.push_back({name.str(), offset, bytes * elements, elements});
    return true;
  }
  for (uint64_t i = 0; i < elements; ++i)
    if (!addRecord(type, offset + i * bytes, name)) return false;
  return true;
}

// Adds the elements of arrays of structs, which the front end does not describe, from LLVM's type
// alone. LLVM's types have no unions.
bool Description::addRecord(Type *type, uint64_t offset, StringRef name) {
  auto *record = dyn_cast<StructType>(type);
  if (!record) return fail("member " + name + " of " + type_ + " cannot be described");
  if (record->hasName() && record->getName().starts_with("union."))
    return fail(type_ + "::" + name + " is an array with a union of pointers in it; remedy: " +
                "describe the type by P3L_TYPE (p3l.h), and keep pointers only in the union");
  const StructLayout *places = layout_.getStructLayout(record);
  for (unsigned i = 0; i < record->getNumElements(); ++i) {
    uint64_t at = offset + places->getElementOffset(i);
    if (!addMember(record->getElementType(i), "", (name + "[]").str(), at)) return false;
  }
  return true;
}

// Whether members share bytes, as in a union: then either all or none must be pointers, or the
// program has to say which are.
bool Description::overlaps() {
  for (Member &slot : members_) {
    if (slot.slots == 0) continue;
    for (const Member &other : members_) {
      bool apart =
          other.offset >= slot.offset + slot.bytes || slot.offset >= other.offset + other.bytes;
      if (!apart && unions_ && (other.slots == 0 || slot.bytes > 8)) slot.shared = true;
      if (unions_) continue;
      if (apart || (other.slots != 0 && (other.offset - slot.offset) % 8 == 0)) continue;
      fail(type_ + ": the pointer " + slot.name + " shares its place with " + other.name +
           ", which is none, so it is unknown which of them is there; remedy: make it a struct "
           "of " +
           "both, keep pointers only in the union, or describe it (P3L_PERSISTENT_UNIONS)");
      return true;
    }
  }
  return false;
}

bool Description::read() {
  for (Instruction &instruction : instructions(probe_)) {
    auto *call = dyn_cast<CallInst>(&instruction);
    if (!call || !call->getCalledFunction()) continue;
    if (call->getCalledFunction()->getName() == kCallback && !add(*call)) return false;
  }
  llvm::sort(members_, [](const Member &a, const Member &b) {
    return std::tie(a.offset, a.name) < std::tie(b.offset, b.name);
  });
  return !overlaps();
}

// Returns the array of p3l_field: {name, offset, count} each, and a NULL name at the end.
Constant *Description::fields() const {
  Module &module = *probe_.getParent();
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::get(context, 0), *number = Type::getInt32Ty(context);
  StructType *type = StructType::get(pointer, number, number);
  SmallVector<Constant *, 16> entries;
  uint64_t described = 0;
  for (const Member &member : members_) {
    // Of a union's pointers only the first is listed.
    if (member.slots == 0 || member.offset < described) continue;
    if (!member.shared) described = member.offset + member.bytes;
    uint64_t slots = member.shared ? 0 : member.slots;
    Constant *string = ConstantDataArray::getString(context, member.name);
    auto *name = new GlobalVariable(module, string->getType(), true, GlobalValue::PrivateLinkage,
                                    string, "p3l.member");
    entries.push_back(ConstantStruct::get(
        type, {name, ConstantInt::get(number, member.offset), ConstantInt::get(number, slots)}));
  }
  entries.push_back(Constant::getNullValue(type));
  return ConstantArray::get(ArrayType::get(type, entries.size()), entries);
}

}  // namespace

PreservedAnalyses DescribeTypes::run(Module &module, ModuleAnalysisManager &) {
  SmallVector<Function *, 8> probes;
  for (Function &function : module)
    if (!function.isDeclaration() && function.getName().starts_with(kProbe))
      probes.push_back(&function);
  for (Function *probe : probes) {
    StringRef identifier = probe->getName().drop_front(strlen(kProbe));
    std::string name = (kFields + identifier).str();
    bool unions = module.getNamedGlobal((kUnions + identifier).str());
    Description description(*probe, unions);
    if (description.read()) {
      Constant *fields = description.fields();
      auto *made = new GlobalVariable(module, fields->getType(), true, GlobalValue::InternalLinkage,
                                      fields, "p3l.made");
      made->setAlignment(Align(8));
      if (GlobalVariable *declared = module.getNamedGlobal(name)) {
        declared->replaceAllUsesWith(made);
        declared->eraseFromParent();
      }
    }
    removeFromUsedLists(module, [&](Constant *used) { return used == probe; });
    probe->eraseFromParent();
  }
  if (Function *callback = module.getFunction(kCallback))
    if (callback->use_empty()) callback->eraseFromParent();
  return probes.empty() ? PreservedAnalyses::all() : PreservedAnalyses::none();
}

}  // namespace p3l
