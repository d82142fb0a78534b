// Registers the passes, and the few things that all of them use.
#include "p3l_plugin.h"

#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/CommandLine.h"
#if LLVM_VERSION_MAJOR >= 17
#include "llvm/TargetParser/Triple.h"
#else
#include "llvm/ADT/Triple.h"
#endif

using namespace llvm;

static cl::opt<p3l::Mode> modeOption(
    "p3l", cl::desc("which pointers may be surrogates"), cl::init(p3l::Mode::Qualified),
    cl::values(clEnumValN(p3l::Mode::Qualified, "qualified", "those to `persistent` types"),
               clEnumValN(p3l::Mode::Orthogonal, "orthogonal", "all")));
static cl::opt<bool> loadsOnly("p3l-loads-only",
                               cl::desc("no marks at stores: to measure what the checks cost"));

// The assembler's error for a check that was not lowered quotes this word, which names the remedy.
static constexpr char kCheck[] = "p3l_check_was_not_lowered_by_the_plugin";
static constexpr char kHeal[] = "p3l_heal_was_not_lowered_by_the_plugin";

namespace p3l {

Mode mode() { return modeOption; }

bool isSlotPointer(const Type *type) {
  if (!type->isPointerTy()) return false;
  unsigned space = type->getPointerAddressSpace();
  return space == kAddressSpace || (mode() == Mode::Orthogonal && space == 0);
}

bool hasSlotPointer(Type *type) {
  if (isSlotPointer(type)) return true;
  for (Type *part : type->subtypes())
    if (!type->isPointerTy() && !type->isFunctionTy() && hasSlotPointer(part)) return true;
  return false;
}

bool isUnchecked(const Function &function) {
  const GlobalVariable *annotations =
      function.getParent()->getNamedGlobal("llvm.global.annotations");
  if (!annotations || !annotations->hasInitializer()) return false;
  for (const Use &entry : annotations->getInitializer()->operands()) {
    auto *of = dyn_cast<Constant>(entry);
    if (!of || of->getOperand(0)->stripPointerCasts() != &function) continue;
    auto *text = dyn_cast<GlobalVariable>(of->getOperand(1)->stripPointerCasts());
    auto *data = text ? dyn_cast<ConstantDataArray>(text->getInitializer()) : nullptr;
    if (data && data->isCString() && data->getAsCString() == "p3l.unchecked") return true;
  }
  return false;
}

static CallInst *createMarker(IRBuilder<> &builder, const char *text, const char *constraints,
                              Type *result, ArrayRef<Value *> operands, bool effects) {
  SmallVector<Type *, 2> types;
  for (Value *operand : operands) types.push_back(operand->getType());
  FunctionType *type = FunctionType::get(result, types, false);
  CallInst *call =
      builder.CreateCall(type, InlineAsm::get(type, text, constraints, effects), operands);
  call->addFnAttr(Attribute::NoUnwind);
  call->addFnAttr(Attribute::WillReturn);
  call->addFnAttr(Attribute::NoFree);
  call->addFnAttr(Attribute::NoSync);
  // Whatever plain clang inlines must be inlined here too: the inliner would count a call with two
  // arguments as three instructions.
  call->addFnAttr(Attribute::get(builder.getContext(), "call-inline-cost", "0"));
  return call;
}

// The check is inline assembler instead of a function: LLVM then neither counts it as a call
// (inlining, unrolling) nor speculates it. It has no effects on memory, so it may be merged, moved
// and dropped.
CallInst *createCheck(IRBuilder<> &builder, Value *value, Value *slot) {
  CallInst *call =
      createMarker(builder, kCheck, "=r,0,r", value->getType(), {value, slot}, /*effects=*/false);
  call->setDoesNotAccessMemory();
  call->addParamAttr(1, Attribute::NoCapture);
  return call;
}

CallInst *createHeal(IRBuilder<> &builder, Value *slot) {
  return createMarker(builder, kHeal, "r,~{memory}", builder.getVoidTy(), {slot}, /*effects=*/true);
}

static bool isMarker(const Value *value, StringRef text) {
  auto *call = dyn_cast<CallInst>(value);
  auto *assembler = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
  return assembler && StringRef(assembler->getAsmString()) == text;
}
bool isCheck(const Value *value) { return isMarker(value, kCheck); }
bool isHeal(const Value *value) { return isMarker(value, kHeal); }

void complain(const Instruction &where, const Twine &what) {
  where.getContext().diagnose(DiagnosticInfoUnsupported(*where.getFunction(), "p3l: " + what,
                                                        where.getDebugLoc(), DS_Error));
}
void complain(const Function &where, const Twine &what) {
  where.getContext().diagnose(
      DiagnosticInfoUnsupported(where, "p3l: " + what, DiagnosticLocation(), DS_Error));
}
void warn(const Function &where, const Twine &what) {
  where.getContext().diagnose(
      DiagnosticInfoUnsupported(where, "p3l: " + what, DiagnosticLocation(), DS_Warning));
}

static bool hasEntries(const IRBuilder<> &builder) {
  const Module &module = *builder.GetInsertBlock()->getModule();
  return Triple(module.getTargetTriple()).getArch() == Triple::x86_64;
}

CallInst *callRuntime(IRBuilder<> &builder, StringRef name, Type *result,
                      ArrayRef<Value *> arguments) {
  Module &module = *builder.GetInsertBlock()->getModule();
  bool entry = hasEntries(builder);
  SmallVector<Type *, 2> types;
  for (Value *argument : arguments) types.push_back(argument->getType());
  FunctionCallee callee = module.getOrInsertFunction((entry ? "__" : "") + name.str(),
                                                     FunctionType::get(result, types, false));
  CallInst *call = builder.CreateCall(callee, arguments);
  if (entry) {
    call->setCallingConv(CallingConv::PreserveMost);
    if (auto *function = dyn_cast<Function>(callee.getCallee())) {
      function->setCallingConv(CallingConv::PreserveMost);
      // Until the dynamic linker has bound a function, only C's argument registers are preserved.
      function->addFnAttr(Attribute::NonLazyBind);
    }
  }
  call->addFnAttr(Attribute::Cold);
  return call;
}

CallInst *callSwizzle(IRBuilder<> &builder, Value *slot, Value *value) {
  if (!hasEntries(builder))
    return callRuntime(builder, "p3l_swizzle", builder.getPtrTy(), {slot, value});
  return callRuntime(builder, "p3l_swizzle_value", builder.getPtrTy(), {value, slot});
}

// Slow paths rejoin the loop they belong to, so LLVM treats them as blocks of it and places them
// between the hot blocks and the code after the loop: each exit of the loop then jumps over them. A
// block that is this much colder than the loop is placed at the end of the function, but only if a
// profile is said to be present.
void moveSlowPathsAway(Function &function) {
  if (function.hasProfileData()) return;
  function.setEntryCount(Function::ProfileCount(1, Function::PCT_Real));
}

}  // namespace p3l

static void addFirst(ModulePassManager &passes) {
  passes.addPass(p3l::DescribeTypes());
  passes.addPass(p3l::MarkLoads());
}

static void addLast(ModulePassManager &passes) {
  // Writes first: they are grouped by blocks, and checks split blocks.
  if (!loadsOnly) passes.addPass(p3l::MarkWrites());
  passes.addPass(p3l::LowerChecks());
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "p3l", "1", [](PassBuilder &builder) {
            builder.registerPipelineStartEPCallback(
                [](ModulePassManager &passes, OptimizationLevel) { addFirst(passes); });
            builder.registerOptimizerLastEPCallback(
                [](ModulePassManager &passes, OptimizationLevel) { addLast(passes); });
            // For opt, which tests single passes.
            builder.registerPipelineParsingCallback([](StringRef name, ModulePassManager &passes,
                                                       ArrayRef<PassBuilder::PipelineElement>) {
              if (name == "p3l-first") return addFirst(passes), true;
              if (name == "p3l-last") return addLast(passes), true;
              return false;
            });
          }};
}
