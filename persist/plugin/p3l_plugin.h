// The compiler plugin: what its passes share.
//
//   front end ─> mark_loads ─> all of LLVM's optimisations ─> lower_checks ─> mark_writes ─> machine code
//                describe_types                               (at the end of the pipeline)
//
// Invariants:
//  1. A value in a register, an argument or a local variable is no surrogate. Only what is loaded, or
//     converted from an integer, may be one, so only there is a check needed.
//  2. mark_loads runs before anything was optimised, and ties a check to every such value: a call
//     without effects that LLVM knows nothing about (see createCheck). Whatever optimisations do to the load
//     (merged, widened to an integer, taken out of a struct copy), uses see what the check returns.
//     LLVM may drop, merge and move checks, not execute them where the program did not.
//  3. Stores are looked at when nothing moves them any more, so their marks are where they are.
//  4. A check that was not lowered does not assemble.
#ifndef P3L_PLUGIN_H
#define P3L_PLUGIN_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

namespace p3l {

// Of pointers to persistent objects; p3l_qualifier.h has the same number. Below 256, x86-64 has all
// address spaces in one.
constexpr unsigned kAddressSpace = 100;

enum class Mode {
  Qualified,   // pointers to kAddressSpace
  Orthogonal,  // all pointers
};
Mode mode();

// What a slot holds: a pointer that may be a surrogate when it is loaded.
bool isSlotPointer(const llvm::Type *type);
// Something that has slot pointers in it: a vector, a struct, an array.
bool hasSlotPointer(llvm::Type *type);

// Functions that an `annotate` attribute takes out: they move surrogates about and know it.
bool isUnchecked(const llvm::Function &function);

// Whether loads from this object, as the front end made it, can only give what was stored as a
// pointer: a local or static variable whose address does not escape.
class PrivateVariables {
 public:
  bool contains(const llvm::Value *slot);

 private:
  bool examine(const llvm::Value *object) const;
  llvm::DenseMap<const llvm::Value *, bool> known_;
};

// A load that cannot give a surrogate for any content of memory: constants, C++'s tables of virtual
// functions, addresses of functions.
bool isExempt(const llvm::LoadInst &load);

// The check: takes a value and where it was loaded from (NULL: nowhere to heal).
llvm::CallInst *createCheck(llvm::IRBuilder<> &builder, llvm::Value *value, llvm::Value *slot);
bool isCheck(const llvm::Value *value);
// Heals the slot that a compare-and-exchange is about to look at.
llvm::CallInst *createHeal(llvm::IRBuilder<> &builder, llvm::Value *slot);
bool isHeal(const llvm::Value *value);

// A compile-time error in the user's program.
void complain(const llvm::Instruction &where, const llvm::Twine &what);
void complain(const llvm::Function &where, const llvm::Twine &what);
void warn(const llvm::Function &where, const llvm::Twine &what);

// Slow paths: entries that keep registers where the machine has them (swizzle_entry.S).
llvm::CallInst *callRuntime(llvm::IRBuilder<> &builder, llvm::StringRef name, llvm::Type *result,
                            llvm::ArrayRef<llvm::Value *> arguments);

// That of a check. The surrogate goes where a function's first argument does, for that is where the pointer
// goes next in f(p->next): were it the second, a move on the fast path would bring it there.
llvm::CallInst *callSwizzle(llvm::IRBuilder<> &builder, llvm::Value *slot, llvm::Value *value);

// Where a function's slow paths lie: behind it.
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
