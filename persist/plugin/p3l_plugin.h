// Declarations shared by the passes of the compiler plugin.
//
//   front end ─> mark_loads ─> all of LLVM's optimisations ─> lower_checks ─> mark_writes ─> machine code
//                describe_types                               (at the end of the pipeline)
//
// Invariants:
//  1. A value in a register, an argument or a local variable is never a surrogate. Only a value
//     that is loaded, or converted from an integer, may be one, so only there is a check needed.
//  2. mark_loads runs before anything was optimised, and ties a check to every such value: a call
//     without effects that LLVM knows nothing about (see createCheck). Whatever optimisations do to the load
//     (merged, widened to an integer, taken out of a struct copy), uses see what the check returns.
//     LLVM may drop, merge and move checks, not execute them where the program did not.
//  3. Stores are marked when no pass moves them any more, so the marks stay next to them.
//  4. A check that was not lowered does not assemble.
#ifndef P3L_PLUGIN_H
#define P3L_PLUGIN_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

namespace p3l {

// The address space of pointers to persistent objects; p3l_qualifier.h has the same number. It is
// below 256, because x86-64 gives the numbers from there on a meaning of their own.
constexpr unsigned kAddressSpace = 100;

enum class Mode {
  Qualified,   // pointers to kAddressSpace
  Orthogonal,  // all pointers
};
Mode mode();

// Whether a slot of this type holds a pointer that may be a surrogate when it is loaded.
bool isSlotPointer(const llvm::Type *type);
// Whether the type is or contains a slot pointer: a vector, a struct, an array.
bool hasSlotPointer(llvm::Type *type);

// Whether an `annotate` attribute excludes the function from checks, because it handles surrogates
// itself.
bool isUnchecked(const llvm::Function &function);

// The local and static variables whose address does not escape: loads from them can only return
// what was stored as a pointer.
class PrivateVariables {
 public:
  bool contains(const llvm::Value *slot);

 private:
  bool examine(const llvm::Value *object) const;
  llvm::DenseMap<const llvm::Value *, bool> known_;
};

// Whether a load can never return a surrogate: constants, C++'s virtual tables, addresses of
// functions.
bool isExempt(const llvm::LoadInst &load);

// Creates the check of a value; `slot` is the address it was loaded from, NULL if there is none to
// update.
llvm::CallInst *createCheck(llvm::IRBuilder<> &builder, llvm::Value *value, llvm::Value *slot);
bool isCheck(const llvm::Value *value);
// Heals the slot that a compare-and-exchange will access.
llvm::CallInst *createHeal(llvm::IRBuilder<> &builder, llvm::Value *slot);
bool isHeal(const llvm::Value *value);

// A compile-time error in the user's program.
void complain(const llvm::Instruction &where, const llvm::Twine &what);
void complain(const llvm::Function &where, const llvm::Twine &what);
void warn(const llvm::Function &where, const llvm::Twine &what);

// Calls a slow path of the runtime through an entry that preserves the registers where the machine
// has one (swizzle_entry.S).
llvm::CallInst *callRuntime(llvm::IRBuilder<> &builder, llvm::StringRef name, llvm::Type *result,
                            llvm::ArrayRef<llvm::Value *> arguments);

// Calls the slow path of a check. The surrogate is passed as the first argument, because in
// f(p->next) the pointer is then needed in that register; passed as the second it would cost a move
// on the fast path.
llvm::CallInst *callSwizzle(llvm::IRBuilder<> &builder, llvm::Value *slot, llvm::Value *value);

// Moves a function's slow paths to its end.
void moveSlowPathsAway(llvm::Function &function);

struct MarkLoads : llvm::PassInfoMixin<MarkLoads> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }  // at -O0, too
};

struct LowerChecks : llvm::PassInfoMixin<LowerChecks> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

struct MarkWrites : llvm::PassInfoMixin<MarkWrites> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &analyses);
  static bool isRequired() { return true; }
};

struct DescribeTypes : llvm::PassInfoMixin<DescribeTypes> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

}  // namespace p3l

#endif
